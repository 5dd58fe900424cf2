"""Access to a ledger: who holds it, and until when it is open."""
