"""On a real server, each obstacle of an operator becomes a condition, with few requests.

One operator with the chart's permissions serves a namespace for each obstacle. Obstacles that a
test server cannot show are tested in tests/operator/test_decide_obstacles.py:

    a claim refused by a quota     test_a_claim_that_is_refused_is_asked_for_again
    a namespace that goes away     test_a_namespace_that_goes_away_is_no_storm
    an image that is not there     test_an_image_that_can_not_be_pulled_ends_the_attempt
    a pod that finds no node       test_a_pod_that_finds_no_node_ends_the_attempt

On a real server, the pipelines of a deleted namespace disappear before a status can report this.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api_server import EXISTING, ApiServer, find_binary, list_ours
from control_plane import run_control_plane
from counting_proxy import CountingProxy, run_proxy
from kube_client import KubeClient, ServerStage
from kuberay_player import Troupe
from obstacle_scenes import Prepare, put_rayjob_in_the_way, use_quota_up
from operator_process import OperatorProcess, run_operator
from operator_stories import NAME, spell_pipeline
from recordings import Json
from strandline_api.names import GROUP
from waiting import wait_until

LIMITS = {"STRANDLINE_SETTLE": "1", "STRANDLINE_OUTCOME": "1"}
PATIENCE = 120.0
QUIET_SECONDS = 10.0
# Changes per pipeline during this time: a pending status, and a repeated creation.
QUIET_CHANGES = 2
LONG_NAME = "corpus-" + "x" * 246
RAY = "ray.io"
# API group, resource, and verbs.
RIGHTS = (
    (GROUP, "curationpipelines", ["get", "list", "watch", "patch"]),
    (GROUP, "curationattempts", ["get", "list", "watch", "create", "delete"]),
    (GROUP, "curationpipelines/status", ["update"]),
    (GROUP, "curationattempts/status", ["update"]),
    (GROUP, "curationpipelines/finalizers", ["update"]),
    (GROUP, "curationattempts/finalizers", ["update"]),
    (RAY, "rayjobs", ["get", "list", "watch", "create", "delete"]),
    (RAY, "rayclusters", ["list", "watch", "delete"]),
    ("", "pods", ["list", "watch", "delete"]),
    ("", "pods/log", ["get"]),
    ("", "persistentvolumeclaims", ["get", "create", "patch"]),
    ("", "configmaps", ["get", "create"]),
    ("", "secrets", ["create"]),
    ("", "events", ["create", "list"]),
    ("", "resourcequotas", ["list"]),
    ("kueue.x-k8s.io", "workloads", ["list"]),
    ("kueue.x-k8s.io", "localqueues", ["get"]),
    ("", "limitranges", ["list"]),
)
RBAC = "rbac.authorization.k8s.io"


def do_nothing(client: KubeClient, namespace: str) -> None:
    """Do nothing, because this obstacle needs no objects."""


# The pipeline's name, the missing permission, the prepared objects, and the expected reason of a
# condition.
OBSTACLES: dict[str, tuple[str, tuple[str, str] | None, Prepare, str]] = {
    "nothing": (NAME, None, do_nothing, "Starting"),
    "a long name": (LONG_NAME, None, do_nothing, "Starting"),
    "rayjobs create": (NAME, ("rayjobs", "create"), do_nothing, "PermissionDenied"),
    "pods list": (NAME, ("pods", "list"), do_nothing, "PermissionDenied"),
    "claims create": (NAME, ("persistentvolumeclaims", "create"), do_nothing, "ClaimRefused"),
    "status update": (NAME, ("curationpipelines/status", "update"), do_nothing, ""),
    "another's RayJob": (NAME, None, put_rayjob_in_the_way, "NameTaken"),
    "quota": (NAME, None, use_quota_up, "QuotaUsedUp"),
}


def grant(client: KubeClient, namespace: str, home: str, missing: tuple[str, str] | None) -> None:
    """Grant the operator's permissions in a namespace, except one."""
    rules = []
    for group, resource, verbs in RIGHTS:
        kept = [verb for verb in verbs if (resource, verb) != missing]
        if kept:
            rules.append({"apiGroups": [group], "resources": [resource], "verbs": kept})
    names = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "operator"}}
    client.create({**names, "kind": "Role", "rules": rules}, namespace)
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": home}
    role = {"apiGroup": RBAC, "kind": "Role", "name": "operator"}
    client.create(
        {**names, "kind": "RoleBinding", "subjects": [subject], "roleRef": role}, namespace
    )


@contextmanager
def run_watched(
    kubeconfig: Path, folder: Path, *namespaces: str
) -> Iterator[tuple[OperatorProcess, CountingProxy]]:
    """Run an operator whose calls are counted."""
    places = ("--namespaces", ",".join(namespaces))
    with (
        run_proxy(kubeconfig, folder) as proxy,
        run_operator(proxy.kubeconfig, folder, *places, **LIMITS) as operator,
    ):
        yield operator, proxy
        assert operator.is_alive
        assert operator.faults == []
        assert operator.ask("healthz")[0] == 200


def read_reasons(client: KubeClient, namespace: str, name: str = NAME) -> set[str]:
    """Return the reasons of all conditions of a pipeline."""
    body = client.get("CurationPipeline", name, namespace) or {}
    return {condition["reason"] for condition in body.get("status", {}).get("conditions", ())}


def count_changes(proxy: CountingProxy, namespace: str) -> int:
    return sum(f"namespaces/{namespace}/" in call.path for call in proxy.changes)


@pytest.fixture
def home(api_server: ApiServer) -> str:
    """Return the operator's own namespace."""
    return api_server.make_namespace("home")


def test_each_obstacle_is_reported_without_repeated_requests(
    api_server: ApiServer, client: KubeClient, home: str, tmp_path: Path
) -> None:
    kubeconfig = api_server.make_account(home, "operator")
    places = {obstacle: api_server.make_namespace() for obstacle in OBSTACLES}
    for obstacle, (name, missing, prepare, _) in OBSTACLES.items():
        grant(client, places[obstacle], home, missing)
        prepare(client, places[obstacle])
        client.create(spell_pipeline(name), places[obstacle])
    with run_watched(kubeconfig, tmp_path, *places.values()) as (operator, proxy):
        for obstacle, (name, _, _, reason) in OBSTACLES.items():
            wait_for_reason(client, places[obstacle], name, reason)
        time.sleep(2.0)  # the actions that follow the condition are done then
        before = {obstacle: count_changes(proxy, place) for obstacle, place in places.items()}
        time.sleep(QUIET_SECONDS)
        for obstacle, place in places.items():
            assert count_changes(proxy, place) - before[obstacle] <= QUIET_CHANGES, obstacle
            assert find_repeated(client, place) == [], obstacle
        told = [line["message"] for line in operator.lines]
    assert any("curationpipelines/status" in line for line in told)
    check_names(client, places["a long name"])
    assert read_reasons(client, places["status update"]) == set()
    for place in places.values():
        client.delete("Namespace", place)


def find_repeated(client: KubeClient, namespace: str) -> list[tuple[str, str]]:
    """Return the object name and reason of each repeated event."""
    told = Counter[tuple[str, str]]()
    for event in client.list("Event", namespace):
        told[event["involvedObject"]["name"], event["reason"]] += event.get("count") or 1
    return [what for what, times in told.items() if times > 1]


def wait_for_reason(client: KubeClient, namespace: str, name: str, reason: str) -> None:
    if reason:
        wait_until(lambda: reason in read_reasons(client, namespace, name), PATIENCE)


def check_names(client: KubeClient, namespace: str) -> None:
    """Check that all objects of a pipeline with a long name have valid names."""
    (rayjob,) = client.list("RayJob", namespace)
    (attempt,) = client.list("CurationAttempt", namespace)
    (claim,) = client.list("PersistentVolumeClaim", namespace)
    assert len(rayjob["metadata"]["name"]) <= 47
    assert rayjob["metadata"]["ownerReferences"][0]["name"] == attempt["metadata"]["name"]
    assert attempt["metadata"]["name"].startswith("corpus-xxx")
    assert claim["metadata"]["name"].startswith("corpus-xxx")


def test_a_namespace_deleted_during_a_run_goes_with_its_content(
    api_server: ApiServer, client: KubeClient, tmp_path: Path
) -> None:
    namespace = api_server.make_namespace()
    troupe = Troupe(ServerStage(client), namespace, ["s-k-success"])
    client.create(spell_pipeline(), namespace)

    def is_running() -> bool:
        asyncio.run(troupe.tick())
        return "Running" in read_reasons(client, namespace)

    def is_gone() -> bool:
        asyncio.run(troupe.tick())
        return client.get("Namespace", namespace) is None

    with run_watched(api_server.kubeconfig, tmp_path, namespace) as (_, proxy):
        wait_until(is_running, PATIENCE)
        before = count_changes(proxy, namespace)
        client.delete("Namespace", namespace)
        wait_until(is_gone, PATIENCE)
        assert count_changes(proxy, namespace) - before <= 20


def test_pods_rejected_by_a_quota_are_reported_and_end_the_attempt(
    api_server: ApiServer, client: KubeClient, home: str, tmp_path: Path
) -> None:
    """A real KubeRay wrote this condition of the RayCluster again for each refused pod."""
    namespace, kubeconfig = api_server.make_namespace(), api_server.make_account(home, "operator")
    grant(client, namespace, home, None)
    pipeline = spell_pipeline()
    # An exceeded quota costs no retry, so the next attempt follows after the delay.
    pipeline["spec"]["retry"] = {"disruptions": {"maxRetries": 0}, "delay": "1h"}
    client.create(pipeline, namespace)

    def is_so(reason: str) -> bool:
        asyncio.run(troupe.tick())
        return reason in read_reasons(client, namespace)

    def is_ending() -> bool:
        (attempt,) = client.list("CurationAttempt", namespace)
        return str(attempt["status"].get("phase")) == "TearingDown"

    with run_watched(kubeconfig, tmp_path, namespace):
        # By the recording's times, the operator reports the quota for ten seconds only. So the
        # recording must not begin before the operator works.
        wait_until(lambda: bool(read_reasons(client, namespace)), PATIENCE)
        begin = datetime.now(UTC)
        troupe = Troupe(ServerStage(client), namespace, ["v-quota-on-pods"], begin=begin)
        wait_until(lambda: is_so("QuotaUsedUp"), PATIENCE)
        # The recording also has the deletion of the RayJob, so wait for the operator's deletion
        # first.
        wait_until(is_ending, PATIENCE)
        wait_until(lambda: is_so("WaitingToRetry"), PATIENCE)
    (attempt,) = client.list("CurationAttempt", namespace)
    assert attempt["status"]["cause"] == "QuotaExceeded"
    assert "exceeded quota: small, requested: limits.memory" in attempt["status"]["message"]
    client.delete("Namespace", namespace)


def test_an_unsupported_kuberay_option_is_reported_and_prevents_the_run(
    api_server: ApiServer, client: KubeClient, home: str, tmp_path: Path
) -> None:
    namespace, kubeconfig = api_server.make_namespace(), api_server.make_account(home, "operator")
    grant(client, namespace, home, None)
    pipeline = spell_pipeline()
    pipeline["spec"].setdefault("ray", {})["authOptions"] = {"mode": "token", "later": True}
    client.create(pipeline, namespace)
    with run_watched(kubeconfig, tmp_path, namespace):
        wait_for_reason(client, namespace, NAME, "ObjectRefused")
    body = client.get("CurationPipeline", NAME, namespace) or {}
    messages = [condition["message"] for condition in body["status"]["conditions"]]
    assert any("authOptions.later" in message for message in messages), messages
    assert client.list("RayJob", namespace) == []
    client.delete("Namespace", namespace)


def test_a_failed_mount_is_read_from_the_events_of_its_pod(
    api_server: ApiServer, client: KubeClient, home: str, tmp_path: Path
) -> None:
    namespace, kubeconfig = api_server.make_namespace(), api_server.make_account(home, "operator")
    grant(client, namespace, home, None)
    client.create(spell_pipeline(), namespace)
    with run_watched(kubeconfig, tmp_path, namespace) as (_, proxy):
        wait_until(lambda: bool(client.list("RayJob", namespace)), PATIENCE)
        warn_of_mount(client, namespace)
        wait_for_reason(client, namespace, NAME, "VolumeNotMounted")
        asked = [call for call in proxy.calls if call.verb == "GET" and "/events" in call.path]
    assert 0 < len(asked) < 10
    body = client.get("CurationPipeline", NAME, namespace) or {}
    messages = [condition["message"] for condition in body["status"]["conditions"]]
    assert any('head pod stuck: secret "s3" not found' in message for message in messages)
    client.delete("Namespace", namespace)


def warn_of_mount(client: KubeClient, namespace: str) -> None:
    """Create a head pod with a node and without containers, and the kubelet's warning."""
    (rayjob,) = client.list("RayJob", namespace)
    name = rayjob["metadata"]["name"]
    client.put_status("RayJob", name, {"jobDeploymentStatus": "Initializing"}, namespace)
    labels = {**rayjob["metadata"]["labels"], "strandline.dev/role": "head"}
    metadata = {"name": "stuck", "labels": labels}
    spec = {"nodeName": "node-1", "containers": [{"name": "ray-head", "image": "x"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pod = client.create(body, namespace)
    client.put_status("Pod", "stuck", {"phase": "Pending"}, namespace)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "stuck.1"},
        "involvedObject": {
            "kind": "Pod",
            "name": "stuck",
            "namespace": namespace,
            "uid": pod["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "FailedMount",
        "message": 'secret "s3" not found',
        "lastTimestamp": now,
    }
    client.create(event, namespace)


@pytest.mark.skipif(EXISTING in os.environ, reason="the server is another's")
def test_a_missing_kuberay_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "control-plane"
    folder.mkdir()
    with (
        run_control_plane(find_binary(print), folder, list_ours()) as kubeconfig,
        closing(KubeClient(kubeconfig)) as client,
        run_watched(kubeconfig, tmp_path, "default") as (_, proxy),
    ):
        client.create(spell_pipeline(), "default")
        wait_for_reason(client, "default", NAME, "KubeRayMissing")
        time.sleep(2.0)
        before = count_changes(proxy, "default")
        time.sleep(QUIET_SECONDS)
        assert count_changes(proxy, "default") - before <= QUIET_CHANGES
        assert find_repeated(client, "default") == []


def test_every_removed_permission_was_granted_before() -> None:
    verbs: Json = {resource: names for _, resource, names in RIGHTS}
    missing = [right for _, right, _, _ in OBSTACLES.values() if right]
    assert missing
    assert all(verb in verbs[resource] for resource, verb in missing)
