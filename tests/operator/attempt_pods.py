"""Pods of attempts with their real labels, and the network policies created for those pods.

The operator's labels come from the rendered templates. KubeRay's labels come from the stand-in,
which other tests compare with recordings of a real KubeRay. The module must not depend on which
pods may connect to each other.
"""

from __future__ import annotations

from typing import Any

from kuberay_standin.rayclusters.pods import make_head, make_worker
from kuberay_standin.rayjobs.jobs import make_cluster, make_job
from network_rules import Endpoint
from simulated_cluster import SimulatedCluster
from strandline_operator.model.limits import Limits
from strandline_operator.model.network import AttemptNetwork
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
NAMESPACE = "team"


def render_attempt(network: AttemptNetwork | None, pipeline: str = "corpus") -> SimulatedCluster:
    """Return a cluster with the objects of a pipeline's first attempt."""
    cluster = SimulatedCluster(limits=Limits(attempt_network=network))
    cluster.pipeline["metadata"] |= {"name": pipeline, "uid": f"uid-of-{pipeline}"}
    cluster.settle()
    return cluster


def list_policies(cluster: SimulatedCluster) -> list[Json]:
    """Return the network policies of the cluster."""
    return cluster.list_of(Resource.NETWORK_POLICY)


def list_pods(cluster: SimulatedCluster) -> dict[str, Endpoint]:
    """Return the attempt's head, worker, and submitter, with the labels of all controllers."""
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    pods = make_pods(rayjob)
    pods["submitter"]["metadata"]["labels"]["job-name"] = rayjob["metadata"]["name"]
    return {role: Endpoint(NAMESPACE, pod["metadata"]["labels"]) for role, pod in pods.items()}


def make_pods(rayjob: Json) -> dict[str, Json]:
    """Make the head, a worker, and the submitter's template of a RayJob, as KubeRay does."""
    name = f"{rayjob['metadata']['name']}-abcde"
    rayjob = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        **rayjob,
        "metadata": {**rayjob["metadata"], "namespace": NAMESPACE},
        "status": {"rayClusterName": name, "jobId": name},
    }
    cluster = make_cluster(rayjob)
    cluster["metadata"]["uid"] = "uid-of-the-cluster"
    (group,) = cluster["spec"]["workerGroupSpecs"]
    return {
        "head": make_head(cluster),
        "worker": make_worker(cluster, group, 0),
        "submitter": make_job(rayjob, cluster)["spec"]["template"],
    }
