"""Commands about what runs have left: ledgers, outputs, publications."""
