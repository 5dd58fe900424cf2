"""The spec that users write: the pipeline's fields, their defaults, and their constraints.

This package must not depend on the state of a run.
"""
