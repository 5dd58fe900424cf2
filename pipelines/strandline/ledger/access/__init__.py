"""Access to a ledger: leases, sessions, and copies."""
