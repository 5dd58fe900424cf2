"""The checks of `strandline doctor`: facts, probes, and judgments.

This package must not run the user's pipeline.
"""
