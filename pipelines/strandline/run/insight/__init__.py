"""Reads what runs have left: attempts, machines, lineage. Writes no ledger and no output."""
