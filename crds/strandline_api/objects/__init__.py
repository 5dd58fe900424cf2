"""The two kinds, each with metadata, spec, and status.

This package must not depend on the writers of these parts.
"""
