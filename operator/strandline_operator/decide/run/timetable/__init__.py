"""Runs that begin by the clock."""
