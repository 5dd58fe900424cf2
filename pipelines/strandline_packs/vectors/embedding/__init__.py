"""Vectors of texts, pictures, and hashes."""
