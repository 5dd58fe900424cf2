"""Measures the ledger: counting, opening, skipping, and size."""
