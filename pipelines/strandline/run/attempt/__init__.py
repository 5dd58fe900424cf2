"""Makes one attempt: takes over the ledger, processes sources, and returns the outcome.

This package must not depend on whether another attempt follows.
"""
