"""Converts the models to Kubernetes' own schema, and to the definitions of both kinds.

This package must not know what the fields mean.
"""
