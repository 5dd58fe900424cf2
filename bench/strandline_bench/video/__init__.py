"""Stages for videos, beside PyAV and Ray Data."""
