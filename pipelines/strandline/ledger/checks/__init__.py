"""Proofs by a ledger: files and records agree, and nothing of a data set is missing."""
