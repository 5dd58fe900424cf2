"""Previews from marked or sampled rows: limits of filters, and costs of models.

This package must not know how previews are shown.
"""
