"""Reads evidence of an end, or of an imminent loss, from a pod, its node, and a RayJob."""
