"""What a pod, its node, and a RayJob report of an end or of a loss to come."""
