"""Rejects the features of a RayJob that no recording covers.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberay_standin.objects import Json
from kuberay_standin.rayclusters.tokens import list_token_problems

RAYJOB_FIELDS = {
    "activeDeadlineSeconds",
    "backoffLimit",
    "entrypoint",
    "preRunningDeadlineSeconds",
    "rayClusterSpec",
    "shutdownAfterJobFinishes",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
    "suspend",
    "ttlSecondsAfterFinished",
}
CLUSTER_FIELDS = {"authOptions", "headGroupSpec", "rayVersion", "workerGroupSpecs"}
HEAD_FIELDS = {"rayStartParams", "serviceType", "template"}
GROUP_FIELDS = {
    "groupName",
    "maxReplicas",
    "minReplicas",
    "numOfHosts",
    "rayStartParams",
    "replicas",
    "template",
}
SUSPEND = "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended"


def find_problem(spec: Json) -> str:
    """Describe in one sentence why a RayJob's spec is rejected, or return an empty string."""
    return next(_list_problems(spec), "")


def _list_problems(spec: Json) -> Iterator[str]:
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        yield SUSPEND
    mode = spec.get("submissionMode", "K8sJobMode")
    if mode != "K8sJobMode":
        yield f"the KubeRay stand-in plays K8sJobMode only, not {mode}"
    if spec.get("backoffLimit"):
        yield "the KubeRay stand-in does not run a RayJob again: set backoffLimit to 0"
    yield from _list_unknown("spec", spec, RAYJOB_FIELDS)
    cluster = spec.get("rayClusterSpec")
    if not cluster:
        yield "the KubeRay stand-in needs spec.rayClusterSpec"
        return
    yield from _list_unknown("spec.rayClusterSpec", cluster, CLUSTER_FIELDS)
    yield from list_token_problems(cluster)
    yield from _list_of_cluster(cluster)


def _list_of_cluster(cluster: Json) -> Iterator[str]:
    head = cluster["headGroupSpec"]
    yield from _list_unknown("headGroupSpec", head, HEAD_FIELDS)
    yield from _list_of_template("headGroupSpec", head)
    container = head["template"]["spec"]["containers"][0]
    names = {port.get("name") for port in container.get("ports", ())}
    if names and "dashboard" not in names:
        yield (
            "the head's container names ports but none is named dashboard,"
            " so that KubeRay v1.7 would not find Ray's"
        )
    for group in cluster.get("workerGroupSpecs") or ():
        location = f"workerGroupSpecs[{group['groupName']}]"
        yield from _list_unknown(location, group, GROUP_FIELDS)
        yield from _list_of_template(location, group)
        if group.get("numOfHosts", 1) != 1:
            yield f"the KubeRay stand-in does not play {location}.numOfHosts above 1"


def _list_of_template(location: str, group: Json) -> Iterator[str]:
    container = group["template"]["spec"]["containers"][0]
    for field in ("command", "args"):
        if container.get(field):
            yield f"the KubeRay stand-in does not play {location} with a {field} of its own"


def _list_unknown(location: str, given: Json, known: set[str]) -> Iterator[str]:
    for field in sorted(set(given) - known):
        if given[field]:
            yield f"the KubeRay stand-in does not play {location}.{field}"
