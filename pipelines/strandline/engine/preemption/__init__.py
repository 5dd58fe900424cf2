"""Handles departing nodes: decides what a worker's death is blamed on, and which sources restart.

The code is pure. The package must not depend on Ray, or on how deaths and notices are detected.
"""
