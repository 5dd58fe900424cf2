"""Working again on what is finished: rows that failed alone, and sources of another recipe."""
