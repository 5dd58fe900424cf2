"""Compares Strandline's engine with other engines on the same work."""
