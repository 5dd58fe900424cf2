"""Builds the parts of a RayCluster, and derives its status from its pods.

This package does no I/O.
"""
