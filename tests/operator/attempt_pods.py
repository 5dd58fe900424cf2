"""Pods of attempts with the labels that they really get, and the policies made with them.

Ours come from the templates that were rendered, KubeRay's from the recordings of a real one. This
room must not know who may talk to whom.
"""

from __future__ import annotations

from typing import Any

from network_rules import Endpoint
from simulated_cluster import SimulatedCluster
from strandline_operator.model.limits import Limits
from strandline_operator.model.network import AttemptNetwork
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
NAMESPACE = "team"
MADE_BY = {"app.kubernetes.io/created-by": "kuberay-operator"}


def render_attempt(network: AttemptNetwork | None, pipeline: str = "corpus") -> SimulatedCluster:
    """A cluster with the objects of a pipeline's first attempt."""
    cluster = SimulatedCluster(limits=Limits(attempt_network=network))
    cluster.pipeline["metadata"] |= {"name": pipeline, "uid": f"uid-of-{pipeline}"}
    cluster.settle()
    return cluster


def list_policies(cluster: SimulatedCluster) -> list[Json]:
    """The policies that were made."""
    return cluster.list_of(Resource.NETWORK_POLICY)


def list_pods(cluster: SimulatedCluster) -> dict[str, Endpoint]:
    """Head, worker and submitter of the attempt, as KubeRay labels them."""
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    spec = rayjob["spec"]
    (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    name = rayjob["metadata"]["name"]
    node = {**MADE_BY, "app.kubernetes.io/name": "kuberay", "ray.io/is-ray-node": "yes"}
    job = {**MADE_BY, "ray.io/originated-from-cr-name": name, "job-name": name}
    return {
        "head": _make(spec["rayClusterSpec"]["headGroupSpec"]["template"], node),
        "worker": _make(group["template"], node),
        "submitter": _make(spec["submitterPodTemplate"], job),
    }


def _make(template: Json, more: Json) -> Endpoint:
    return Endpoint(NAMESPACE, {**template["metadata"]["labels"], **more})
