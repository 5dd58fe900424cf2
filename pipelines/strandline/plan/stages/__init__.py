"""Stages: their classes, columns, and names."""
