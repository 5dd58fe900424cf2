"""A small API server client for tests that exposes requests and responses unchanged.

The client never retries a request. The module must not depend on the origin of the server.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from kuberay_standin.shell.api import (
    MERGE_PATCH,
    REFUSED,
    Connection,
    RefusalError,
    read_kubeconfig,
)
from recordings import Json

JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
FIELD_MANAGER = "strandline-tests"
TIMEOUT = 60
STREAM = 10  # seconds; at the end of a stream, the server reports the current version
NOT_FOUND = 404

# API path and plural name of each kind.
RESOURCES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ConfigMap": ("api/v1", "configmaps"),
        "CurationAttempt": ("apis/strandline.dev/v1alpha1", "curationattempts"),
        "CurationPipeline": ("apis/strandline.dev/v1alpha1", "curationpipelines"),
        "CustomResourceDefinition": ("apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
        "Event": ("api/v1", "events"),
        "Job": ("apis/batch/v1", "jobs"),
        "Lease": ("apis/coordination.k8s.io/v1", "leases"),
        "LimitRange": ("api/v1", "limitranges"),
        "Namespace": ("api/v1", "namespaces"),
        "Node": ("api/v1", "nodes"),
        "PersistentVolume": ("api/v1", "persistentvolumes"),
        "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
        "Pod": ("api/v1", "pods"),
        "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets"),
        "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses"),
        "RayCluster": ("apis/ray.io/v1", "rayclusters"),
        "RayCronJob": ("apis/ray.io/v1", "raycronjobs"),
        "RayJob": ("apis/ray.io/v1", "rayjobs"),
        "RayService": ("apis/ray.io/v1", "rayservices"),
        "ResourceQuota": ("api/v1", "resourcequotas"),
        "Role": ("apis/rbac.authorization.k8s.io/v1", "roles"),
        "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
        "ClusterRole": ("apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding": ("apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses"),
    }
)


Refusal = RefusalError


class KubeClient(Connection):
    """A client of an API server for one user, over one connection. Not thread-safe."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(read_kubeconfig(kubeconfig), TIMEOUT)

    def get(self, kind: str, name: str, namespace: str = "") -> Json | None:
        """Read an object, or return None if the object does not exist."""
        try:
            return self.ask("GET", spell_path(kind, namespace, name))
        except Refusal as refusal:
            if refusal.status == NOT_FOUND:
                return None
            raise

    def list(self, kind: str, namespace: str = "", **query: str) -> list[Json]:
        """Return the objects of a kind, with that kind, optionally by `labelSelector="a=b"`."""
        answer = self.ask("GET", spell_path(kind, namespace), query=query)
        version = answer["apiVersion"]
        return [{"apiVersion": version, "kind": kind, **item} for item in answer["items"]]

    def watch(self, kind: str, version: str, **query: str) -> Iterator[Json]:
        """Yield the events of a kind after a version, until the server ends the stream."""
        query |= {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        target = f"{self._prefix}/{spell_path(kind)}?timeoutSeconds={STREAM}&{urlencode(query)}"
        self._connection.request("GET", target, headers=self._headers)
        with self._connection.getresponse() as response:
            if response.status >= REFUSED:
                raise Refusal(response.status, response.read().decode())
            for line in response:
                yield json.loads(line)

    def abort(self) -> None:
        """Break off a stream that another thread is reading."""
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def create(self, body: Json, namespace: str = "", **query: str) -> Json:
        """Create an object, or only validate the object with `dryRun="All"`."""
        query.setdefault("fieldValidation", "Strict")
        return self.ask("POST", spell_path(body["kind"], namespace), body, query=query)

    def apply(self, body: bytes, kind: str, name: str, namespace: str = "", **query: str) -> Json:
        """Apply YAML unchanged on the server side."""
        path = spell_path(kind, namespace, name)
        query = {"fieldManager": FIELD_MANAGER, "force": "true", **query}
        return self.ask("PATCH", path, body, content=APPLY, query=query)

    def patch(self, kind: str, name: str, patch: Json, namespace: str = "", sub: str = "") -> Json:
        """Apply a JSON merge patch to an object or a subresource."""
        path = spell_path(kind, namespace, name, sub)
        return self.ask("PATCH", path, patch, content=MERGE_PATCH)

    def put_status(self, kind: str, name: str, status: Json, namespace: str = "") -> Json:
        """Replace the whole status of an object, regardless of its current version."""
        patch = json.dumps([{"op": "add", "path": "/status", "value": status}]).encode()
        path = spell_path(kind, namespace, name, "status")
        return self.ask("PATCH", path, patch, content=JSON_PATCH)

    def delete(self, kind: str, name: str, namespace: str = "", grace: int | None = None) -> Json:
        """Delete an object. The server deletes its dependents in the background."""
        options: Json = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return self.ask("DELETE", spell_path(kind, namespace, name), options)


class ServerStage:
    """An API server as a `Stage` (kuberay_player.py) for players of recordings."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        return self._client.get(kind, name, namespace)

    async def list(self, kind: str, namespace: str) -> list[Json]:
        return self._client.list(kind, namespace)

    async def create(self, kind: str, namespace: str, body: Json) -> Json:
        # A recorded object may have fields that the tests' schema omits.
        return self._client.create(body, namespace, fieldValidation="Warn")

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        pass_over_gone(self._client.put_status, kind, name, status, namespace)

    async def patch(self, kind: str, namespace: str, name: str, patch: Json) -> None:
        pass_over_gone(self._client.patch, kind, name, patch, namespace)

    async def delete(self, kind: str, namespace: str, name: str, grace: int | None = None) -> None:
        pass_over_gone(self._client.delete, kind, name, namespace, grace)


def pass_over_gone(call: Any, *arguments: object) -> None:
    """Make a call, and ignore a missing object."""
    try:
        call(*arguments)
    except Refusal as refusal:
        if refusal.status != NOT_FOUND:
            raise


def spell_path(kind: str, namespace: str = "", name: str = "", sub: str = "") -> str:
    """Return the path of an object, a subresource, or a list."""
    version, plural = RESOURCES[kind]
    place = ("namespaces", namespace) if namespace else ()
    return "/".join(part for part in (version, *place, plural, name, sub) if part)
