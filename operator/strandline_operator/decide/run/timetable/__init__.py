"""Starts runs on a schedule."""
