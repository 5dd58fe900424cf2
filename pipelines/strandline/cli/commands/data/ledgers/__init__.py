"""Commands about a ledger and its sources."""
