"""Builds the parts of a RayCluster, and derives its status from its pods. Pure."""
