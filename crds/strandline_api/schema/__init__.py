"""Converts the models to Kubernetes' own schema, and to the definitions of both kinds.

This package must not depend on the meaning of fields.
"""
