"""Content of the sections of the report's page.

This package does no I/O.
"""
