"""Stages for pictures."""
