"""What a ledger holds: its entries, as values and as bytes."""
