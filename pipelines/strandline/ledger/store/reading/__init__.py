"""Reads the ledger: single entries, and databases in portions."""
