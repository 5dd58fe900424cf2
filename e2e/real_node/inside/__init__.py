"""Runs a node inside its namespaces: its settings, programs, and first process."""
