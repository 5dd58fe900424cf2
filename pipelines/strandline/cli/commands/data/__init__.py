"""Commands about results of runs: ledgers, outputs, publications."""
