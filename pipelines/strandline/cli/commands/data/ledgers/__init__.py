"""Commands that read or change a ledger and its sources."""
