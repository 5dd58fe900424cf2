"""What the ledger costs: counting, opening, skipping, space."""
