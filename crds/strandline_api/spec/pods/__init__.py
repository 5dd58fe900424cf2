"""Pod settings in a spec: templates, variables, volumes.

This package must not know which pods exist.
"""
