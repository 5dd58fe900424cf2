"""Recorded results of scenarios: how each ended, and the view of a user."""
