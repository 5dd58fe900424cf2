"""Describes the initial objects of a cluster: rights of its DNS server, and a storage class.

This module must not depend on how the objects are created.
"""

from __future__ import annotations

from typing import Any

from real_node import layout

RBAC = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]


def list_first_objects() -> list[dict[str, Any]]:
    """Return the objects that every new cluster has."""
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:coredns"}
    user = {"apiGroup": RBAC, "kind": "User", "name": "system:coredns"}
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "namespaces"], "verbs": READ},
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": READ,
                },
            ],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": role,
            "subjects": [user],
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": layout.STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
            # Bind a claim when a pod needs it, as most clouds do.
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ]


def describe_volume(name: str, size: str, mode: str = "ReadWriteMany") -> dict[str, Any]:
    """Return a volume backed by the node's folder `volumes/NAME`."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [mode],
            "capacity": {"storage": size},
            "hostPath": {"path": f"{layout.HOME}/volumes/{name}", "type": "DirectoryOrCreate"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": layout.STORAGE_CLASS,
        },
    }
