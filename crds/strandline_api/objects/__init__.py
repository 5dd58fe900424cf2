"""The two kinds, each with metadata, spec, and status.

This package must not know who writes them.
"""
