"""One attempt, from taking over the ledger to its outcome.

This package must not know whether another attempt follows.
"""
