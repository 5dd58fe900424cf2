"""Stages for text."""
