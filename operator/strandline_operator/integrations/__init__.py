"""Products beside Kubernetes and KubeRay that a cluster may have, each behind a port of ours."""
