"""Pod settings in a spec: templates, variables, volumes.

This package must not depend on which pods exist.
"""
