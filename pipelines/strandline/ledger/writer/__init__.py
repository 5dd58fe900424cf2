"""The writer of a ledger: when and in which order data becomes durable."""
