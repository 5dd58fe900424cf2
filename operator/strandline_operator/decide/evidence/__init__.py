"""Evidence of an end, or of a coming loss, from a pod, its node, and a RayJob."""
