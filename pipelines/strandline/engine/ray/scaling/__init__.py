"""Worker counts for a cluster of Ray, and the resources to request from its autoscaler."""
