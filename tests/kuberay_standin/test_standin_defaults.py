"""RayJobs rendered with the chart's defaults start on a standard KubeRay."""

from __future__ import annotations

from typing import Any

import pytest

from attempt_pods import make_pods
from kuberay_standin.objects import Json
from kuberay_standin.rayjobs.refusals import find_problem
from simulated_cluster import SimulatedCluster
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.settings import Settings

IMAGES: list[dict[str, Any]] = [{}, {"image": "registry.invalid/theirs:1"}]


def render_rayjob(ray: dict[str, Any], limits: Limits) -> Json:
    """Return the RayJob of a pipeline, after checking that KubeRay accepts the RayJob."""
    cluster = SimulatedCluster(limits=limits)
    cluster.edit(ray={**cluster.spec["ray"], **ray})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert find_problem(rayjob["spec"]) == ""
    return rayjob


@pytest.mark.parametrize("ray", IMAGES)
@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_no_probe_needs_a_program_that_an_image_may_lack(ray: dict[str, Any], kind: str) -> None:
    """Check probes without `wget`, which some images lack, so that Ray pods become Ready."""
    for limits in (Limits(), Settings().limits):
        pods = make_pods(render_rayjob(ray, limits))
        for role in ("head", "worker"):
            probe = pods[role]["spec"]["containers"][0][kind]
            assert "exec" not in probe
            assert probe["httpGet"]["port"] == 52365
