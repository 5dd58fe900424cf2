"""Fetches and installs the code that a pipeline imports: archives and packages.

This package must not depend on what the code does.
"""
