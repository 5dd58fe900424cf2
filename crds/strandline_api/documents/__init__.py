"""Parses documents into models: strictly for a user's file, leniently for a stored object.

This package must not depend on the origin of a document.
"""
