"""Parts of a RayCluster, and the status derived from its pods. Pure."""
