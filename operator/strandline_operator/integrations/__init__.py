"""Support for optional products besides Kubernetes and KubeRay, each behind an interface."""
