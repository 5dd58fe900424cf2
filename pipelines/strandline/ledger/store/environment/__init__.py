"""The LMDB environment of a ledger: layout and integrity checks."""
