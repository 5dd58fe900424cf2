"""The two kinds, each whole: metadata, spec and status.

It must not know who writes which of them.
"""
