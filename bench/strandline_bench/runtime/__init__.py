"""Measures the cost of a run beyond its stages: a command, a task, an output, a node."""
