"""Handles departing nodes: decides what a worker's death is blamed on, and which sources restart.

This package has no side effects, and must not depend on Ray, or on how deaths and notices are
detected.
"""
