"""Renders the manifests of an attempt and checks their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulated_cluster import SimulatedCluster
from stored_documents import store
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.stored import is_stored
from strandline_api.outcome.reader_token import (
    NOTICE_TOKEN_VARIABLE,
    NOTICE_VARIABLE,
    derive_notice_token,
    derive_release_token,
    derive_token,
    digest_token,
)
from strandline_api.schema.crd import pipeline_definition
from strandline_api.spec.ray_cluster import PodSecurity
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Create, Resource
from strandline_operator.render.pods.overlay import lay_over

ROOT = Path(__file__).parents[2]


def render(**spec: Any) -> dict[str, Any]:
    """Return the RayJob of the first attempt of a pipeline with these fields."""
    cluster = SimulatedCluster()
    cluster.share_claim("shared")
    cluster.edit(**spec)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    return rayjob


def render_with_key() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the RayJob and the Secret of an attempt whose operator has a key."""
    cluster = SimulatedCluster(limits=Limits(token_key=b"key"))
    cluster.settle()
    (rayjob,), (secret,) = map(cluster.list_of, (Resource.RAYJOB, Resource.SECRET))
    return rayjob, secret


def pods_of(rayjob: dict[str, Any]) -> dict[str, dict[str, Any]]:
    cluster = rayjob["spec"]["rayClusterSpec"]
    pods = {"head": cluster["headGroupSpec"]["template"]}
    pods |= {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    submitter = rayjob["spec"].get("submitterPodTemplate")
    return pods | ({"submitter": submitter} if submitter else {})


def test_an_attempts_objects_match_the_golden_file(golden: Callable[[str, str], None]) -> None:
    cluster = SimulatedCluster(limits=Limits(token_key=b"key"))
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
    cluster.share_claim("shared")
    cluster.settle()
    del cluster.objects[Resource.CLAIM, "shared"]  # created by the test, not by the operator
    made = [cluster.attempts["corpus-1"][0], *cluster.objects.values()]
    golden("operator/attempt.yaml", yaml.safe_dump_all(made, sort_keys=False))


def test_a_driver_runs_only_once() -> None:
    rayjob = render()
    spec = rayjob["spec"]
    assert spec["backoffLimit"] == 0
    assert spec["submitterConfig"] == {"backoffLimit": 0}
    assert rayjob["metadata"]["annotations"] == {"ray.io/disable-provisioned-head-restart": "true"}
    assert spec["shutdownAfterJobFinishes"] is True
    assert spec["ttlSecondsAfterFinished"] > 0
    assert spec["preRunningDeadlineSeconds"] > 0
    assert {pod["spec"]["restartPolicy"] for pod in pods_of(rayjob).values()} == {"Never"}


def test_an_attempt_without_a_deadline_has_no_time_limit() -> None:
    assert "activeDeadlineSeconds" not in render()["spec"]


@pytest.mark.parametrize(
    ("deadline", "grace", "expected"),
    [
        # The sum of the longest wait for capacity, the attempt, its drain, and KubeRay's margin.
        ("2h", "30s", 30 * 86_400 + 7200 + 30 + 15 + 120),
        ("400d", "1h", 30 * 86_400 + 400 * 86_400 + 3600 + 15 + 120),
    ],
)
def test_kuberays_deadline_follows_the_operators_deadline(
    deadline: str, grace: str, expected: int
) -> None:
    made = render(deadlines={"attempt": deadline}, checkpoint={"gracePeriod": grace})
    assert made["spec"]["activeDeadlineSeconds"] == expected


def test_every_pod_has_the_labels_and_no_credentials() -> None:
    for name, pod in pods_of(render()).items():
        labels = pod["metadata"]["labels"]
        assert labels["strandline.dev/pipeline-uid"] == "uid-p"
        assert labels["strandline.dev/attempt"] == "1"
        assert labels["strandline.dev/role"] == {"cpu": "worker"}.get(name, name)
        assert pod["spec"]["automountServiceAccountToken"] is False


def test_no_pod_has_the_token_that_reads_and_releases_the_driver() -> None:
    rayjob, _ = render_with_key()
    uid = rayjob["metadata"]["ownerReferences"][0]["uid"]
    tokens = {"STRANDLINE_READER": derive_token(uid)}
    tokens["STRANDLINE_HEARER"] = derive_release_token(b"key", uid)
    for name, pod in pods_of(rayjob).items():
        (container,) = pod["spec"]["containers"]
        given = {one["name"]: one.get("value") for one in container.get("env", [])}
        for variable, token in tokens.items():
            digest = digest_token(token) if name == "head" else None
            assert given.get(variable) == digest
            assert token not in json.dumps(rayjob)
    # The pipeline's uid, from which the token is derived, must be absent, too.
    assert f'"{uid}"' not in json.dumps(rayjob["spec"])


OPTIONS = {
    "authOptions": {"mode": "token"},
    "tlsOptions": {"enabled": True},
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_kuberays_own_options_are_passed_on(name: str) -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray={name: OPTIONS[name]})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    given = rayjob["spec"]["rayClusterSpec"]
    assert {name: given.get(name) for name in OPTIONS} == {
        **dict.fromkeys(OPTIONS),
        name: OPTIONS[name],
    }
    assert list_strict(cluster) == [Resource.RAYJOB]


DISABLED = {"name": "RAY_AUTH_MODE", "value": "disabled"}
IN_HEAD = {"spec": {"containers": [{"name": "ray-head", "env": [DISABLED]}]}}


@pytest.mark.parametrize(
    ("ray", "asked"),
    [
        ({"version": "2.61.0"}, {"mode": "token"}),
        ({"version": "v3.0.0rc1"}, {"mode": "token"}),
        ({"version": "2.60.9"}, None),
        ({"version": "nightly"}, None),
        ({"image": "mine:1"}, None),  # the Ray version of this image is unknown
        ({"version": "2.61.0", "authOptions": {"mode": "disabled"}}, {"mode": "disabled"}),
        ({"version": "2.61.0", "podTemplate": IN_HEAD}, None),
    ],
)
def test_a_ray_that_requires_a_token_gets_one(
    ray: dict[str, Any], asked: dict[str, str] | None
) -> None:
    cluster = SimulatedCluster()
    cluster.edit(ray=ray)
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    assert rayjob["spec"]["rayClusterSpec"].get("authOptions") == asked
    # In strict mode, a KubeRay that does not know the field rejects the RayJob. Otherwise it would
    # drop the field.
    assert list_strict(cluster) == ([Resource.RAYJOB] if asked else [])


@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_ray_without_token_authentication_has_it_disabled(mode: str) -> None:
    """Newer Ray versions require a token by default, and KubeRay does not disable this."""
    for pod in pods_of(render(ray={"authOptions": {"mode": mode}})).values():
        told = pod["spec"]["containers"][0].get("env", [])
        assert (DISABLED in told) == (mode == "disabled")


def test_ray_containers_use_log_lines_as_termination_messages() -> None:
    for name, pod in pods_of(render()).items():
        policy = pod["spec"]["containers"][0].get("terminationMessagePolicy")
        assert policy == (None if name == "submitter" else "FallbackToLogsOnError")


def test_without_own_options_objects_are_not_created_strictly() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    assert list_strict(cluster) == []


def list_strict(cluster: SimulatedCluster) -> list[Resource]:
    """Return the kinds that were created in strict mode."""
    made = (action for plan in cluster.plans for action in plan.actions)
    return [each.resource for each in made if isinstance(each, Create) and each.is_strict]


@pytest.mark.parametrize(
    "part",
    [
        {"volumes": None},
        {"volumes": [{"name": "x", "persistentVolumeClaim": None}]},
        {"initContainers": None},
        {"containers": [{"name": "ray-head", "volumeMounts": None}]},
    ],
)
def test_odd_parts_of_a_template_are_left_to_the_server(part: Any) -> None:
    head = pods_of(render(ray={"head": {"podTemplate": {"spec": part}}}))["head"]
    assert head["spec"]["containers"][0]["name"] == "ray-head"


def test_every_container_is_confined() -> None:
    for pod in pods_of(render()).values():
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in pod["spec"]["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (None, {"runAsUser": 1000, "fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}),
        ({"runAsUser": 5, "supplementalGroups": [7]}, {"runAsUser": 5, "supplementalGroups": [7]}),
        ({}, {}),
    ],
)
def test_users_and_groups_come_from_installation_pipeline_or_cluster(
    given: dict[str, Any] | None, chosen: dict[str, Any]
) -> None:
    always = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for pod in pods_of(render(ray={"securityContext": given})).values():
        assert pod["spec"]["securityContext"] == always | chosen


def test_an_installation_may_leave_users_to_the_cluster() -> None:
    cluster = SimulatedCluster(limits=Limits(pod_security=PodSecurity(), dashboard_host="::"))
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    for pod in pods_of(rayjob).values():
        assert set(pod["spec"]["securityContext"]) == {"runAsNonRoot", "seccompProfile"}
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert head["rayStartParams"] == {"dashboard-host": "::"}


def test_a_user_without_an_entry_in_the_image_has_a_name() -> None:
    pods = pods_of(render())
    for name in ("head", "cpu"):
        variables = {
            one["name"]: one.get("value") for one in pods[name]["spec"]["containers"][0]["env"]
        }
        assert variables["USER"] == variables["LOGNAME"] == "strandline"


def test_a_pipeline_can_set_the_dashboards_address() -> None:
    rayjob = render(ray={"head": {"rayStartParams": {"dashboard-host": "::1"}}})
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert head["rayStartParams"] == {"dashboard-host": "::1"}


def test_the_head_drains_within_its_grace_period() -> None:
    head = pods_of(render(checkpoint={"gracePeriod": "50s"}))["head"]["spec"]
    assert head["terminationGracePeriodSeconds"] == 65
    (container,) = head["containers"]
    command = " ".join(container["lifecycle"]["preStop"]["exec"]["command"])
    assert "strandline drain" in command
    assert "sleep 8" in command
    variables = {one["name"]: one["value"] for one in container["env"]}
    assert variables["RAY_task_oom_retries"] == "0"
    assert variables["RAY_JOB_STOP_WAIT_TIME_S"] == "58"  # seconds before Ray kills the driver


def find_leave_hook(**group: Any) -> str:
    worker = pods_of(render(ray={"workerGroups": [{"name": "cpu", **group}]}))["cpu"]["spec"]
    (container,) = worker["containers"]
    return str(container["lifecycle"]["preStop"]["exec"]["command"][-1])


@pytest.mark.parametrize(("grace", "seconds"), [(None, 30), (120, 120), (0, 0)])
def test_a_worker_reports_its_end_to_the_driver_within_its_grace_period(
    grace: int | None, seconds: int
) -> None:
    template = {"spec": {"terminationGracePeriodSeconds": grace}}
    group = {} if grace is None else {"podTemplate": template}
    assert find_leave_hook(**group) == (
        f"strandline leave --wait --port 8780 --seconds {seconds} || true"
    )


def test_a_workers_own_hook_is_kept() -> None:
    hook = {"preStop": {"exec": {"command": ["mine"]}}}
    template = {"spec": {"containers": [{"name": "ray-worker", "lifecycle": hook}]}}
    assert find_leave_hook(podTemplate=template) == "mine"


def test_the_driver_has_the_digest_of_the_notice_token() -> None:
    rayjob, secret = render_with_key()
    uid = rayjob["metadata"]["ownerReferences"][0]["uid"]
    pods = pods_of(rayjob)
    variables = {
        name: {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
        for name, pod in pods.items()
        if name != "submitter"
    }
    ((key, token),) = secret["stringData"].items()
    assert token == derive_notice_token(b"key", uid)
    assert variables["cpu"][NOTICE_TOKEN_VARIABLE]["valueFrom"] == {
        "secretKeyRef": {"name": secret["metadata"]["name"], "key": key, "optional": True}
    }
    assert variables["head"][NOTICE_VARIABLE]["value"] == digest_token(token)
    assert NOTICE_TOKEN_VARIABLE not in variables["head"]
    assert token not in json.dumps(rayjob)
    assert secret["metadata"]["ownerReferences"] == rayjob["metadata"]["ownerReferences"]


def test_without_a_key_the_driver_accepts_no_notices() -> None:
    """Without a key anyone could derive tokens, so the driver gets no token."""
    cluster = SimulatedCluster()
    cluster.settle()
    assert cluster.list_of(Resource.SECRET) == []
    (container,) = pods_of(render())["head"]["spec"]["containers"]
    names = {each["name"] for each in container["env"]}
    assert names.isdisjoint({NOTICE_VARIABLE, "STRANDLINE_HEARER"})


def test_readiness_needs_no_program_in_the_image() -> None:
    params = {"dashboard-agent-listen-port": "52999"}
    group = {"name": "cpu", "rayStartParams": params}
    pods = pods_of(render(ray={"image": "mine:1", "workerGroups": [group]}))
    for name, port in {"head": 52365, "cpu": 52999}.items():
        (container,) = pods[name]["spec"]["containers"]
        asked = {"path": "/api/local_raylet_healthz", "port": port}
        assert container["readinessProbe"]["httpGet"] == asked
        assert container["livenessProbe"]["httpGet"] == asked
    (submitter,) = pods["submitter"]["spec"]["containers"]
    assert not {"readinessProbe", "livenessProbe"} & set(submitter)


def test_a_users_own_probe_is_kept() -> None:
    probe = {"exec": {"command": ["true"]}}
    template = {"spec": {"containers": [{"name": "ray-head", "readinessProbe": probe}]}}
    (container,) = pods_of(render(ray={"head": {"podTemplate": template}}))["head"]["spec"][
        "containers"
    ]
    assert container["readinessProbe"] == probe
    assert "httpGet" in container["livenessProbe"]


def test_rays_version_is_set_if_known() -> None:
    def said(**ray: Any) -> str | None:
        version: str | None = render(ray=ray)["spec"]["rayClusterSpec"].get("rayVersion")
        return version

    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert said() == pinned[1]
    assert said(image="mine:1") is None
    assert said(image="mine:1", version="2.51.0") == "2.51.0"


def test_only_the_head_has_the_ledger() -> None:
    mounts = {
        name: {mount["name"] for mount in pod["spec"]["containers"][0].get("volumeMounts", [])}
        for name, pod in pods_of(render(storage={"output": {"claimName": "shared"}})).items()
    }
    assert "ledger" in mounts["head"]
    assert "ledger" not in mounts["cpu"]
    assert "output" in mounts["head"] & mounts["cpu"]


def test_the_drivers_pipeline_has_a_resolved_output_location() -> None:
    cluster = SimulatedCluster()
    cluster.edit(storage={"output": {"claimName": "shared"}})
    cluster.share_claim("shared")
    cluster.settle()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    document = json.loads(config["data"]["pipeline.yaml"])
    pipeline = parse_pipeline(document)
    assert (pipeline.metadata.namespace, pipeline.metadata.name) == ("team", "corpus")
    assert pipeline.spec.storage.output.url == "/var/lib/strandline-output/team/corpus"


def test_the_driver_gets_only_settings_that_differ_from_the_defaults() -> None:
    cluster = SimulatedCluster()
    cluster.pipeline = store(cluster.pipeline, pipeline_definition())
    cluster.edit(checkpoint={"interval": "60s", "keepLast": 7}, later={"colour": "blue"})
    assert cluster.spec["storage"]["retention"] == "Retain"
    cluster.settle()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    document = json.loads(config["data"]["pipeline.yaml"])
    assert is_stored(document)
    assert document["spec"] == {
        "source": {"use": "files"},
        "sink": {"use": "jsonl"},
        "checkpoint": {"keepLast": 7},
    }


def test_sidecar_mode_omits_submitter_settings() -> None:
    spec = render(ray={"submissionMode": "SidecarMode"})["spec"]
    assert "submitterPodTemplate" not in spec
    assert "submitterConfig" not in spec


def test_a_users_template_wins_except_for_required_fields() -> None:
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
def test_manifests_are_merged(base: Any, top: Any, merged: Any) -> None:
    assert lay_over(base, top) == merged
