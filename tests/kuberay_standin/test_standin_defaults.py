"""What the operator renders with the chart's own defaults comes up on a KubeRay as it is."""

from __future__ import annotations

from typing import Any

import pytest

from kuberay_standin.objects import Json
from kuberay_standin.rayclusters.pods import make_head, make_worker
from kuberay_standin.rayjobs.jobs import make_cluster
from kuberay_standin.rayjobs.refusals import find_problem
from simulated_cluster import SimulatedCluster
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.settings import Settings

IMAGES: list[dict[str, Any]] = [{}, {"image": "registry.invalid/theirs:1"}]


def make_pods(ray: dict[str, Any], limits: Limits) -> list[Json]:
    """The head and a worker of each group that KubeRay makes of a pipeline's RayJob."""
    cluster = SimulatedCluster(limits=limits)
    cluster.edit(ray={**cluster.spec["ray"], **ray})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert find_problem(rayjob["spec"]) == ""
    rayjob = {"apiVersion": "ray.io/v1", "kind": "RayJob", **rayjob}
    rayjob["metadata"]["namespace"] = "team"
    rayjob["status"] = {"rayClusterName": "corpus-1-abcde", "jobId": "corpus-1-abcde"}
    made = make_cluster(rayjob)
    made["metadata"]["uid"] = "uid-of-the-cluster"
    groups = made["spec"]["workerGroupSpecs"]
    return [make_head(made), *(make_worker(made, group, 0) for group in groups)]


@pytest.mark.parametrize("ray", IMAGES)
@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_no_probe_needs_a_program_that_an_image_may_lack(ray: dict[str, Any], kind: str) -> None:
    """With `wget` in a probe no Ray pod of ours ever became Ready."""
    for limits in (Limits(), Settings().limits):
        pods = make_pods(ray, limits)
        assert len(pods) == 2
        for pod in pods:
            probe = pod["spec"]["containers"][0][kind]
            assert "exec" not in probe
            assert probe["httpGet"]["port"] == 52365
