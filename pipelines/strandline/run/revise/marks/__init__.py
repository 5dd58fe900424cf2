"""Previews from marked or sampled rows: limits of filters, and costs of models.

This package must not depend on the presentation of previews.
"""
