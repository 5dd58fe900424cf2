"""Decisions about one attempt, from its RayJob to its final cause.

The package is pure, and must not depend on the other attempts of the pipeline.
"""
