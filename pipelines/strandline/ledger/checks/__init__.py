"""What a ledger proves of a data set: that files and records agree, and that nothing is missing."""
