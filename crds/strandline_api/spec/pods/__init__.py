"""Pod settings in a spec: templates, variables, and volumes.

This package must not depend on which pods exist.
"""
