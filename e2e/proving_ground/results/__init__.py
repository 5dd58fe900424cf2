"""What is kept of scenarios: how each ended, and what a user saw of it."""
