"""Entries of a ledger, as values and as bytes."""
