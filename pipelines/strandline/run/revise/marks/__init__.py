"""Previews from marked or sampled rows: effects of filter limits, and costs of models.

This package must not depend on the presentation of previews.
"""
