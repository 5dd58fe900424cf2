"""Adapters that run a case on each compared engine, and the index of these engines."""
