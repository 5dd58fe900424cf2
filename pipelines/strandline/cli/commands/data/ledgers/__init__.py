"""Commands about a ledger and the sources in it."""
