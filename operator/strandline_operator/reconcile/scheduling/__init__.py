"""Schedules passes, and limits how many attempts start."""
