"""In an elastic cluster, only the autoscaler's container gets a service account token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline.engine.ray.scaling.demand import VARIABLE
from strandline_operator.decide.evidence.pods import find_pod_evidence
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.render.pods.elastic import FULL_SIZE, MOST_ASKED, TOKEN_PATH
from test_render import pods_of, render

GROWS = {"name": "cpu", "minReplicas": 1, "maxReplicas": 4, "resources": {"cpu": 3.5}}
GPU = {"name": "gpu", "minReplicas": 2, "resources": {"cpu": 8, "gpu": 2}}


def cluster_of(**ray: Any) -> dict[str, Any]:
    spec: dict[str, Any] = render(ray=ray)["spec"]["rayClusterSpec"]
    return spec


def full_size_of(cluster: dict[str, Any]) -> Any:
    head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    values = [one["value"] for one in head["env"] if one["name"] == FULL_SIZE]
    return json.loads(values[0]) if values else None


def test_a_growing_group_enables_the_autoscaler() -> None:
    cluster = cluster_of(workerGroups=[GROWS, GPU])
    assert cluster["enableInTreeAutoscaling"] is True
    options = cluster["autoscalerOptions"]
    assert options["version"] == "v2"
    assert options["idleTimeoutSeconds"] > 0
    context = options["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    bounds = [(spec["minReplicas"], spec["maxReplicas"]) for spec in cluster["workerGroupSpecs"]]
    assert bounds == [(1, 4), (2, 2)]
    assert [spec["replicas"] for spec in cluster["workerGroupSpecs"]] == [1, 2]


@pytest.mark.parametrize(
    "ray",
    [
        {"workerGroups": [GPU]},
        {"workerGroups": [{**GROWS, "maxReplicas": 1}]},
        {"workerGroups": []},
        {"workerGroups": [GROWS], "queueName": "nightly"},
    ],
)
def test_a_cluster_of_a_fixed_size_has_no_autoscaler(ray: dict[str, Any]) -> None:
    cluster = cluster_of(**ray)
    assert "enableInTreeAutoscaling" not in cluster
    assert "autoscalerOptions" not in cluster
    assert full_size_of(cluster) is None
    volumes = cluster["headGroupSpec"]["template"]["spec"]["volumes"]
    assert not any("projected" in volume for volume in volumes)


def test_a_queue_label_on_the_pipeline_fixes_the_size() -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={"workerGroups": [GROWS]})
    cluster.pipeline["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "nightly"}
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert "enableInTreeAutoscaling" not in rayjob["spec"]["rayClusterSpec"]


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_queue_that_supports_resizing_allows_growth(value: str) -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={"workerGroups": [GROWS], "queueName": "nightly"})
    cluster.pipeline["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": value}
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    is_resized = value == "true"
    annotations = rayjob["metadata"]["annotations"]
    assert ("kueue.x-k8s.io/elastic-job" in annotations) is is_resized
    assert rayjob["spec"]["rayClusterSpec"].get("enableInTreeAutoscaling", False) is is_resized


def test_only_the_autoscaler_gets_a_token() -> None:
    rayjob = render(ray={"workerGroups": [GROWS, GPU]})
    (token,) = [
        volume["name"]
        for volume in pods_of(rayjob)["head"]["spec"]["volumes"]
        if "serviceAccountToken" in str(volume)
    ]
    mounts = rayjob["spec"]["rayClusterSpec"]["autoscalerOptions"]["volumeMounts"]
    assert {"name": token, "mountPath": TOKEN_PATH, "readOnly": True} in mounts
    for name, pod in pods_of(rayjob).items():
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in pod["spec"]["containers"]:
            assert token not in {mount["name"] for mount in container["volumeMounts"]}
        assert name == "head" or token not in {volume["name"] for volume in pod["spec"]["volumes"]}


def test_every_path_of_the_autoscaler_is_a_volume_of_the_head() -> None:
    rayjob = render(ray={"workerGroups": [GROWS]})
    mounts = rayjob["spec"]["rayClusterSpec"]["autoscalerOptions"]["volumeMounts"]
    volumes = {volume["name"] for volume in pods_of(rayjob)["head"]["spec"]["volumes"]}
    assert {mount["name"] for mount in mounts} <= volumes


def test_the_driver_gets_the_full_size() -> None:
    head = {"resources": {"cpu": 1}, "rayStartParams": {"num-cpus": "0"}}
    huge = {**GROWS, "name": "many", "maxReplicas": 10**6, "rayStartParams": {"num-cpus": "2"}}
    assert full_size_of(cluster_of(workerGroups=[GROWS, GPU])) == [
        [1, {"CPU": 2}],
        [4, {"CPU": 3}],
        [2, {"CPU": 8, "GPU": 2}],
    ]
    assert full_size_of(cluster_of(head=head, workerGroups=[huge])) == [[MOST_ASKED, {"CPU": 2}]]
    assert FULL_SIZE == VARIABLE


def test_later_pods_have_the_same_labels() -> None:
    cluster = cluster_of(workerGroups=[GROWS])
    labels = cluster["workerGroupSpecs"][0]["template"]["metadata"]["labels"]
    assert labels["strandline.dev/attempt"] == "1"
    assert labels["strandline.dev/role"] == "worker"


@pytest.mark.parametrize(("container", "seen"), [("ray-head", 1), ("autoscaler", 0)])
def test_the_end_of_an_autoscaler_is_no_evidence_about_the_head(container: str, seen: int) -> None:
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod = Pod.read(
        {
            "metadata": {"name": "head", "labels": {"strandline.dev/role": "head"}},
            "status": {"containerStatuses": [{"name": container, "state": state}]},
        }
    )
    assert len(list(find_pod_evidence(pod))) == seen
