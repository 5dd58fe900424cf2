"""The two kinds, each whole: metadata, spec and status.

It must not know what writes which of them.
"""
