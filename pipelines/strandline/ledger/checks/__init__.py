"""Checks whether a ledger agrees with the files, and whether the data set is complete."""
