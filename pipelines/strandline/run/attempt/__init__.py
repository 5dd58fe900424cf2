"""One attempt, from taking the ledger over to its outcome.

It must not know whether another follows.
"""
