"""What a RayCluster is made of, and the status that follows from its pods. Pure."""
