"""Commands that read or change results of runs: ledgers, outputs, publications."""
