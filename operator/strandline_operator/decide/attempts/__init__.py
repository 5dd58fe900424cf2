"""Decisions about one attempt, from its RayJob to its final cause.

Pure. The package must not depend on the other attempts of the pipeline.
"""
