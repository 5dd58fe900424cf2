"""Dead letters, that is, rows that failed alone: facts about them, and their retrial."""
