"""Reads the records of runs: attempts, machines, lineage. Changes no ledger and no output."""
