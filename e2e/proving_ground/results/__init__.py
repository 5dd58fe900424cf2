"""Records the results of scenarios: how each ended, and what a user sees."""
