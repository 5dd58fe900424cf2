"""Stages for videos, compared with PyAV and Ray Data."""
