"""Checks of a ledger: it agrees with the files, and the data set is complete."""
