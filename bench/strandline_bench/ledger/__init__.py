"""Cost of the ledger: counting, opening, skipping, and space."""
