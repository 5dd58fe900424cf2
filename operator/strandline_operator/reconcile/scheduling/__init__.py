"""Scheduling of passes, and limits on new attempts."""
