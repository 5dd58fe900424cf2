"""The objects with which a node is tried. This room must not know what is expected of them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

IMAGE = "localhost/strandline-trial:1"
SLOT = "example.com/slot"


def describe_pod(name: str, script: str, **spec: Any) -> Json:
    """Describe a pod that runs a script and is not run again.

    Args:
        name: also the value of its label `app`.
        script: for bash.
        spec: more of the pod's; `limits` and `mounts` are of its one container.
    """
    limits, mounts = spec.pop("limits", {}), spec.pop("mounts", [])
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["/bin/bash", "-c", script],
        "resources": {"limits": limits},
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def describe_deployment(name: str, script: str) -> Json:
    """Describe a Deployment of one such pod."""
    pod = describe_pod(name, script, restartPolicy="Always")
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": selector, "template": template},
    }


def describe_service(name: str, port: int) -> Json:
    """Describe the Service of the pods of a name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }


def describe_claim(name: str, volume: str, size: str) -> Json:
    """Describe a claim for one volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": size}},
            "volumeName": volume,
        },
    }


def describe_priority(name: str, value: int) -> Json:
    """Describe a class of pods that may, or may not, push others off the node."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
