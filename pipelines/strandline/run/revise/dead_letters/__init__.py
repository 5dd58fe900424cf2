"""Rows that failed alone: what is known of them, and another try of theirs."""
