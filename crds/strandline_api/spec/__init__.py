"""The spec that users write: a pipeline's fields with defaults and constraints.

This package must not depend on the state of a run.
"""
