"""Compares stages for videos with PyAV and Ray Data."""
