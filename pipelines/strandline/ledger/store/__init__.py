"""Storage of the ledger: LMDB transactions, and the packing of entries.

The package does not decide when a source is finished.
"""
