"""Executes and schedules passes. A pass over a pipeline reads objects, decides, and writes."""
