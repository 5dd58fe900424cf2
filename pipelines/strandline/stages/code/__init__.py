"""Stages for source code."""
