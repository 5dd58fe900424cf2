"""Implements the lifecycle of a RayJob, from one status to the next.

This package does no I/O.
"""
