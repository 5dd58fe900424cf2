"""Measures the cost of the operator on a real API server."""
