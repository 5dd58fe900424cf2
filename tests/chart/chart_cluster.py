"""Starts a control plane without Strandline's objects, which the chart must install.

The module must not depend on the chart's content.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from api_server import ApiServer, find_binary, list_kuberays
from control_plane import (
    list_controller_flags,
    run_control_plane,
    run_program,
)
from kube_client import APPLY, FIELD_MANAGER, NOT_FOUND, KubeClient, Refusal
from recordings import Json
from waiting import wait_until

DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MONITORING = sorted((Path(__file__).parent / "crds").glob("*.yaml"))
TOO_MANY = 429
OURS = "strandline.dev"
SECRETS = "api/v1/secrets"
RELEASED = (
    "api/v1/configmaps",
    "api/v1/serviceaccounts",
    "api/v1/services",
    "apis/apps/v1/deployments",
    "apis/batch/v1/jobs",
    "apis/monitoring.coreos.com/v1/podmonitors",
    "apis/monitoring.coreos.com/v1/prometheusrules",
    "apis/monitoring.coreos.com/v1/servicemonitors",
    "apis/networking.k8s.io/v1/networkpolicies",
    "apis/policy/v1/poddisruptionbudgets",
    "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
)
KINDS = ("curationpipelines", "curationattempts")


@dataclass(frozen=True, slots=True)
class ChartCluster:
    """A running control plane.

    Attributes:
        kubectl: path of a kubectl program.
        client: client of an administrator, which only one thread may use.
    """

    kubeconfig: Path
    client: KubeClient
    folder: Path
    kubectl: Path

    @property
    def server(self) -> ApiServer:
        """The control plane as an `ApiServer`, for helpers of the operator's tests."""
        return ApiServer(self.kubeconfig, self.client, self.folder)

    def make_namespace(self, name: str) -> str:
        """Create a namespace if it is missing."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.client.apply(yaml_of(body), "Namespace", name)
        return name

    def log_in(self, namespace: str, name: str, client: KubeClient | None = None) -> Path:
        """Return an existing service account's kubeconfig. Other threads pass a client."""
        return self.server.log_in(namespace, name, client)

    def make_user(self, namespace: str, role: str) -> KubeClient:
        """Return a client of a user who has one of Kubernetes' default roles in a namespace."""
        self.client.ask(
            "POST",
            f"api/v1/namespaces/{namespace}/serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}},
        )
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": namespace}],
        }
        self.client.create(binding, namespace)
        return KubeClient(self.log_in(namespace, role))

    def find(self, manifest: Json) -> str:
        """Return the API path of a manifest's object, including the name."""
        metadata = manifest["metadata"]
        resource = self.discover(manifest["apiVersion"])[manifest["kind"]]
        place = [root_of(manifest["apiVersion"])]
        if resource["namespaced"]:
            place += ["namespaces", metadata.get("namespace", "default")]
        return "/".join([*place, resource["name"], metadata["name"]])

    def try_out(self, manifest: Json) -> Json:
        """Validate a manifest on the server without storing it.

        Raises:
            Refusal: if the server rejects the manifest.
        """
        query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
        body = yaml_of(manifest)
        return self.client.ask("PATCH", self.find(manifest), body, content=APPLY, query=query)

    def read(self, path: str, selector: str = "") -> Json | None:
        """Return an object or a list, or None if nothing exists at the path."""
        found: list[Json | None] = []
        wait_until(lambda: self._try_reading(path, selector, found))
        return found[0]

    def _try_reading(self, path: str, selector: str, found: list[Json | None]) -> bool:
        """Try to read, and return False if the server is still loading a changed kind."""
        try:
            query = {"labelSelector": selector} if selector else {}
            found.append(self.client.ask("GET", path, query=query))
        except Refusal as refusal:
            if refusal.status not in {NOT_FOUND, TOO_MANY}:
                raise
            if refusal.status == TOO_MANY:
                return False
            found.append(None)
        return True

    def wait_for_kinds(self) -> None:
        """Wait until the server serves Strandline's kinds."""
        for kind in KINDS:
            self._wait_until(f"apis/{OURS}/v1alpha1/{kind}", is_there=True)

    def stands(self, path: str) -> bool:
        """Return True if the object exists and is not being deleted."""
        found = self.read(path)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def wait_until_gone(self, path: str) -> None:
        """Wait until no object exists at the path."""
        self._wait_until(path, is_there=False)

    def _wait_until(self, path: str, *, is_there: bool) -> None:
        wait_until(lambda: (self.read(path) is not None) == is_there)

    def sweep(self) -> None:
        """Remove all releases and Strandline's CRDs, with all objects of these kinds."""
        self._remove_releases()
        for kind in KINDS:
            path = f"{DEFINITIONS}/{kind}.{OURS}"
            if self.read(path) is not None:
                self._unfinish(kind)
                self.client.ask("DELETE", path)
                self.wait_until_gone(path)

    def _remove_releases(self) -> None:
        for kind in RELEASED:
            for body in self._list(kind, "app.kubernetes.io/managed-by=Helm"):
                metadata = body["metadata"]
                root, _, plural = kind.rpartition("/")
                place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
                self.client.ask("DELETE", f"{root}/{place}{plural}/{metadata['name']}")
        for body in self._list(SECRETS, "owner=helm"):
            metadata = body["metadata"]
            place = f"api/v1/namespaces/{metadata['namespace']}/secrets/{metadata['name']}"
            self.client.ask("DELETE", place)

    def _list(self, path: str, selector: str = "") -> list[Json]:
        found = self.read(path, selector)
        return [] if found is None else list(found["items"])

    def _unfinish(self, kind: str) -> None:
        for body in self._list(f"apis/{OURS}/v1alpha1/{kind}"):
            path = f"apis/{OURS}/v1alpha1/namespaces/{body['metadata']['namespace']}/{kind}"
            patch: Json = {"metadata": {"finalizers": []}}
            content = "application/merge-patch+json"
            self.client.ask("PATCH", f"{path}/{body['metadata']['name']}", patch, content=content)

    def discover(self, version: str) -> dict[str, Json]:
        """Return a group version's resources by kind, or an empty mapping if not served."""
        listed = (self.read(root_of(version)) or {"resources": []})["resources"]
        return {one["kind"]: one for one in listed if "/" not in one["name"]}


@contextmanager
def open_chart_cluster(folder: Path, say: Callable[[str], None]) -> Iterator[ChartCluster]:
    """Start a control plane with the kinds of KubeRay and the Prometheus operator."""
    binary = find_binary(say)
    roles = folder / "roles"
    roles.mkdir()
    with (
        run_control_plane(binary, folder, list_kuberays(os.environ)) as kubeconfig,
        closing(KubeClient(kubeconfig)) as client,
        run_program(binary, "kube-controller-manager", roles, list_role_flags(kubeconfig)),
    ):
        for path in MONITORING:
            name = ".".join(reversed(path.stem.split("_")))
            client.apply(path.read_bytes(), "CustomResourceDefinition", name)
        kubectl = folder / "bin" / "kubectl"
        kubectl.parent.mkdir()
        kubectl.write_text(f'#!/bin/sh\nexec "{binary}" kubectl "$@"\n', encoding="utf-8")
        kubectl.chmod(0o755)
        cluster = ChartCluster(kubeconfig, client, folder, kubectl)
        wait_until(lambda: len(cluster.discover("monitoring.coreos.com/v1")) == len(MONITORING))
        yield cluster


def list_role_flags(kubeconfig: Path) -> dict[str, str]:
    """Return the flags of the controller that aggregates roles into Kubernetes' default roles."""
    return list_controller_flags(kubeconfig) | {"controllers": "clusterrole-aggregation-controller"}


def root_of(version: str) -> str:
    """Return the API path of a group version."""
    return f"apis/{version}" if "/" in version else f"api/{version}"


def yaml_of(manifest: Json) -> bytes:
    """Render a manifest as JSON, which is valid YAML."""
    return json.dumps(manifest).encode()
