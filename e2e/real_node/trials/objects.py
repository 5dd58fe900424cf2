"""Describes the objects that trials of a node create.

This module must not depend on the expected results.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

IMAGE = "localhost/strandline-trial:1"
SLOT = "example.com/slot"


def describe_pod(name: str, script: str, **spec: Any) -> Json:
    """Return a pod that runs a script once.

    Args:
        name: name of the pod, and value of its label `app`.
        script: script for bash.
        spec: further fields of the pod; `limits` and `mounts` apply to its only container.
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
    """Return a Deployment of one pod that runs a script."""
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
    """Return the Service that selects the pods with this name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }


def describe_claim(name: str, volume: str, size: str) -> Json:
    """Return a claim for one volume."""
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
    """Return a priority class whose pods may or may not preempt other pods."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
