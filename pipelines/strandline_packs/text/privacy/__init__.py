"""Finds and replaces personal data in texts."""
