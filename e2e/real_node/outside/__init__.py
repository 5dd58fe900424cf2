"""Manages a node from outside its namespaces: its lifecycle and its leftovers."""
