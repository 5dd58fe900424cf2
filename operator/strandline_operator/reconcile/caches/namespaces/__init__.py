"""Caches of settings that apply to all pipelines of a namespace."""
