"""Reads the records of runs: attempts, machines, lineage. Writes no ledger and no output."""
