"""Implements the lifecycle of a RayJob, from one status to the next. Pure."""
