"""The ledger's bytes: LMDB's transactions, and how entries are packed in them.

It has no opinion on what is finished.
"""
