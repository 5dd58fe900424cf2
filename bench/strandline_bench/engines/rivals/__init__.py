"""Adapters that run a case on each engine, and their index."""
