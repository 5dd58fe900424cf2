"""Sets the worker counts on a Ray cluster, and requests resources from Ray's autoscaler."""
