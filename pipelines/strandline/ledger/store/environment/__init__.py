"""The LMDB environment of a ledger: its layout, and whether it is intact."""
