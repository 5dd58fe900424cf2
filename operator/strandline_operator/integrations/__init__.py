"""Optional products in a cluster besides Kubernetes and KubeRay, each behind an interface."""
