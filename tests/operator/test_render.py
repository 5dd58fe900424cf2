"""The manifests an attempt is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from simulated_cluster import SimulatedCluster
from strandline_api.documents import parse_pipeline
from strandline_operator.model.plan import Resource
from strandline_operator.render.overlay import lay_over


def render(**spec: Any) -> dict[str, Any]:
    """The RayJob of the first attempt of a pipeline with these fields."""
    cluster = SimulatedCluster()
    cluster.edit(**spec)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    return rayjob


def pods_of(rayjob: dict[str, Any]) -> dict[str, dict[str, Any]]:
    cluster = rayjob["spec"]["rayClusterSpec"]
    pods = {"head": cluster["headGroupSpec"]["template"]}
    pods |= {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    submitter = rayjob["spec"].get("submitterPodTemplate")
    return pods | ({"submitter": submitter} if submitter else {})


def test_the_whole_of_an_attempt(golden: Callable[[str, str], None]) -> None:
    cluster = SimulatedCluster()
    cluster.edit(
        ray={
            "image": "registry.example/runtime:1",
            "queueName": "nightly",
            "priorityClassName": "batch",
            "imagePullSecrets": [{"name": "registry"}],
            "head": {"resources": {"cpu": 4, "memory": "8Gi"}},
            "workerGroups": [
                {"name": "gpu", "resources": {"gpu": 1, "memory": "16Gi"}, "maxReplicas": 4},
            ],
        },
        storage={"output": {"claimName": "shared"}, "retention": "Delete"},
        deadlines={"attempt": "2h", "preRunning": "20m"},
    )
    cluster.settle()
    made = [cluster.attempts["corpus-1"][0], *cluster.objects.values()]
    golden("operator/attempt.yaml", yaml.safe_dump_all(made, sort_keys=False))


def test_a_driver_can_run_but_once() -> None:
    rayjob = render()
    spec = rayjob["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["submitterConfig"] == {"backoffLimit": 0}
    assert rayjob["metadata"]["annotations"] == {"ray.io/disable-provisioned-head-restart": "true"}
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["preRunningDeadlineSeconds"] > 0
    assert spec["activeDeadlineSeconds"] > 0
    assert {pod["spec"]["restartPolicy"] for pod in pods_of(rayjob).values()} == {"Never"}


def test_every_pod_carries_the_labels_and_no_credentials() -> None:
    for name, pod in pods_of(render()).items():
        labels = pod["metadata"]["labels"]
        assert labels["strandline.dev/pipeline-uid"] == "uid-p"
        assert labels["strandline.dev/attempt"] == "1"
        assert labels["strandline.dev/role"] == {"cpu": "worker"}.get(name, name)
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_every_container_is_confined() -> None:
    for pod in pods_of(render()).values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in pod["spec"]["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True


def test_the_head_drains_within_its_grace() -> None:
    head = pods_of(render(checkpoint={"gracePeriod": "50s"}))["head"]["spec"]
    assert head["terminationGracePeriodSeconds"] == 65
    (container,) = head["containers"]
    command = " ".join(container["lifecycle"]["preStop"]["exec"]["command"])
    assert "strandline drain" in command
    assert "sleep 8" in command
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["RAY_task_oom_retries"] == "0"
    assert variables["RAY_JOB_STOP_WAIT_TIME_S"] == "8"


def test_only_the_head_has_the_ledger() -> None:
    mounts = {
        name: {mount["name"] for mount in pod["spec"]["containers"][0].get("volumeMounts", [])}
        for name, pod in pods_of(render(storage={"output": {"claimName": "shared"}})).items()
    }
    assert "ledger" in mounts["head"]
    assert "ledger" not in mounts["cpu"]
    assert "output" in mounts["head"] & mounts["cpu"]


def test_the_driver_reads_the_pipeline_that_the_cluster_has() -> None:
    cluster = SimulatedCluster()
    cluster.edit(storage={"output": {"claimName": "shared"}})
    cluster.settle()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    document = json.loads(config["data"]["pipeline.yaml"])
    pipeline = parse_pipeline(document)
    assert (pipeline.metadata.namespace, pipeline.metadata.name) == ("team", "corpus")
    assert pipeline.spec.storage.output.url == "/var/lib/strandline-output/team/corpus"
    assert pipeline.spec.retry == parse_pipeline(cluster.pipeline).spec.retry


def test_nothing_of_a_sidecar_forbids_it() -> None:
    spec = render(ray={"submissionMode": "SidecarMode"})["spec"]
    assert "submitterPodTemplate" not in spec
    assert "submitterConfig" not in spec


def test_a_users_template_wins_but_for_what_holds_the_attempt_together() -> None:
    template = {
        "metadata": {"labels": {"team": "a", "strandline.dev/attempt": "99"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "restartPolicy": "Always",
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "containers": [
                {"name": "ray-head", "env": [{"name": "TOKEN", "value": "x"}]},
                {"name": "logs", "image": "logs:1"},
            ],
        },
    }
    head = pods_of(render(ray={"head": {"podTemplate": template}}))["head"]
    assert head["metadata"]["labels"]["team"] == "a"
    assert head["metadata"]["labels"]["strandline.dev/attempt"] == "1"
    assert head["spec"]["nodeSelector"] == {"disk": "fast"}
    assert head["spec"]["restartPolicy"] == "Never"
    ray, logs = head["spec"]["containers"]
    assert logs == {"name": "logs", "image": "logs:1"}
    assert {"RAY_task_oom_retries", "TOKEN"} <= {one["name"] for one in ray["env"]}
    assert ray["image"] == "strandline/runtime:latest"


@pytest.mark.parametrize(
    ("base", "top", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ([{"name": "x", "v": 1}], [{"name": "x", "w": 2}], [{"name": "x", "v": 1, "w": 2}]),
        ([{"name": "x"}], [{"name": "y"}], [{"name": "x"}, {"name": "y"}]),
        ([{"name": "x"}], [], []),
        (
            [{"name": "v", "mountPath": "/a"}],
            [{"name": "v", "mountPath": "/b"}, {"name": "w", "mountPath": "/a"}],
            [{"name": "w", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
        ),
        (
            [{"name": "p", "containerPort": 1}],
            [{"containerPort": 2}],
            [{"name": "p", "containerPort": 1}, {"containerPort": 2}],
        ),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_one_manifest_over_another(base: Any, top: Any, merged: Any) -> None:
    assert lay_over(base, top) == merged
