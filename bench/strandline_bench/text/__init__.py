"""Stages for text, beside what others have for the same."""
