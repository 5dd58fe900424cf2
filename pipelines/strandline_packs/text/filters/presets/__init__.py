"""Limits of filters by language, as they were published."""
