"""The writer of a ledger: what becomes durable when, and in which order."""
