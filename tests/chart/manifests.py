"""Inspects manifests: lists pods, and finds violations of the restricted profile.

The module must not depend on the origin of the manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip


def of_kind(manifests: Iterable[Json], *kinds: str) -> list[Json]:
    """Return the manifests of these kinds."""
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def is_hook(manifest: Json) -> bool:
    """Return True if the object belongs to the removal hook, and exists only during a removal."""
    return bool(manifest["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete")


def name_of(manifest: Json) -> str:
    """Return the kind and name of a manifest."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def list_pods(manifests: Iterable[Json]) -> Iterator[Json]:
    """Yield the pod specs that manifests contain."""
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            yield manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield manifest["spec"]["template"]["spec"]


def list_containers(pod: Json) -> list[Json]:
    """Return all containers of a pod."""
    return [*pod["containers"], *pod.get("initContainers", [])]


def judge_pod(pod: Json) -> list[str]:
    """Return the pod's violations of the restricted Pod Security Standard."""
    context = pod.get("securityContext", {})
    told = [f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    if not context.get("runAsNonRoot"):
        told.append("runAsNonRoot is not set")
    if context.get("runAsUser") == 0:
        told.append("it runs as root")
    if context.get("seccompProfile", {}).get("type") not in {"RuntimeDefault", "Localhost"}:
        told.append("there is no seccomp profile")
    for volume in pod.get("volumes", []):
        told += [f"volume of {kind}" for kind in set(volume) - {"name"} - VOLUMES]
    return told + [one for each in list_containers(pod) for one in judge_container(each)]


def judge_container(container: Json) -> list[str]:
    """Return the container's violations, including a writable root file system."""
    context, told = container.get("securityContext", {}), []
    if context.get("allowPrivilegeEscalation") is not False:
        told.append("privileges may grow")
    if context.get("capabilities", {}).get("drop") != ["ALL"]:
        told.append("capabilities are not dropped")
    if context.get("capabilities", {}).get("add"):
        told.append("capabilities are added")
    if context.get("privileged") or context.get("runAsUser") == 0:
        told.append("it is privileged")
    if not context.get("readOnlyRootFilesystem"):
        told.append("the root file system is written to")
    if any("hostPort" in port for port in container.get("ports", [])):
        told.append("it takes a port of the host")
    return told
