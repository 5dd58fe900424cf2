"""Who writes a ledger: what becomes durable when, and in which order."""
