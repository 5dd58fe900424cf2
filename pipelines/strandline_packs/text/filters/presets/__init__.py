"""Filters with published limits for languages."""
