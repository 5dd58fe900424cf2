"""Optional products of a cluster besides Kubernetes and KubeRay, each behind an interface."""
