"""A server with a quota or limit range on CPU limits admits the operator's pods.

The API server itself admits or rejects the pods, without a controller. The test writes only the
usage of a quota.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_client import KubeClient, Refusal
from simulated_cluster import SimulatedCluster
from strandline_operator.model.cpu_rules import CpuRules, read_rules
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
HARD = {"limits.cpu": "20", "limits.memory": "64Gi", "pods": "20"}


def bound(kind: str, **amounts: str) -> Json:
    item = {"type": kind, **{name: {"cpu": cpu} for name, cpu in amounts.items()}}
    names = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "team"}}
    return {**names, "spec": {"limits": [item]}}


# Whether the namespace has a quota, and its limit range.
NAMESPACES: dict[str, tuple[bool, Json | None]] = {
    "a quota": (True, None),
    "a quota and a default": (True, bound("Container", default="1")),
    "a quota and a ratio": (True, bound("Container", maxLimitRequestRatio="4")),
    "a quota and a largest container": (True, bound("Container", max="2")),
    "a quota and a smallest container": (True, bound("Container", min="100m", default="2")),
    "a ratio of pods": (False, bound("Pod", maxLimitRequestRatio="4")),
    "a largest pod": (False, bound("Pod", max="6")),
    "a default that is small": (False, bound("Container", default="40m", defaultRequest="10m")),
}
# In these namespaces the server sets the limit. A container maximum also acts as the default.
FILLED_IN = {"a quota and a default", "a quota and a largest container"}


def render_pods(rules: CpuRules) -> dict[str, Json]:
    """Return the specs of the pods that KubeRay and Jobs make for an attempt and its check."""
    cluster = SimulatedCluster(cpu_rules=rules, limits=Limits(preflight=True))
    cluster.spec["ray"]["workerGroups"][0]["maxReplicas"] = 4
    cluster.settle()
    (job,) = cluster.list_of(Resource.JOB)
    cluster.limits = Limits()
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    ray = rayjob["spec"]["rayClusterSpec"]
    head = copy.deepcopy(ray["headGroupSpec"]["template"]["spec"])
    autoscaler = {"name": "autoscaler", "image": "ray", **ray["autoscalerOptions"]}
    kept = ("name", "image", "resources", "volumeMounts")
    head["serviceAccountName"] = "default"  # this server assigns no default service account
    head["containers"].append({name: autoscaler[name] for name in kept})
    return {
        "submitter": rayjob["spec"]["submitterPodTemplate"]["spec"],
        "head": head,
        "check": job["spec"]["template"]["spec"],
    }


def find_refusal(client: KubeClient, namespace: str, name: str, spec: Json) -> str:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    try:
        client.create(body, namespace, dryRun="All")
    except Refusal as refusal:
        return refusal.message
    return ""


@pytest.mark.parametrize("case", NAMESPACES)
def test_every_pod_is_admitted_with_its_limit_and_rejected_without(
    case: str, client: KubeClient, namespace: str
) -> None:
    has_quota, limit_range = NAMESPACES[case]
    quotas: list[Json] = []
    if has_quota:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
        quotas = [client.create({**quota, "spec": {"hard": HARD}}, namespace)]
        used = dict.fromkeys(HARD, "0")
        client.put_status("ResourceQuota", "team", {"hard": HARD, "used": used}, namespace)
    ranges = [] if limit_range is None else [client.create(limit_range, namespace)]
    rules = read_rules(quotas, ranges)
    pods, before = render_pods(rules), render_pods(CpuRules())
    for name, spec in pods.items():
        assert find_refusal(client, namespace, name, spec) == "", name
    refused = [find_refusal(client, namespace, name, spec) for name, spec in before.items()]
    assert any("cpu" in words for words in refused) is (case not in FILLED_IN)
