"""Measures requests to models, and vectors of models."""
