"""Converts the models to Kubernetes structural schemas, and to the CRDs of both kinds.

This package must not depend on the meaning of fields.
"""
