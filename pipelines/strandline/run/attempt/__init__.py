"""One attempt, from taking over the ledger to its outcome.

This package must not depend on whether another attempt follows.
"""
