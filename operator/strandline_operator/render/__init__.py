"""Renders manifests of the operator's objects from specs.

This package does no I/O.
"""
