"""Access to a ledger: its lease, and how long it is open."""
