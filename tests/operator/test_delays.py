"""Delays of pod starts are reported within seconds, on the attempt and the pipeline.

The message quotes the controller.
"""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.plan import Resource

HEAD, WORKER = "corpus-1-head", "corpus-1-cpu"
CREATING = {"waiting": {"reason": "ContainerCreating"}}
RUNNING = {"running": {"startedAt": "2026-11-22T23:09:51Z"}}
QUOTA = (
    'pods "corpus-1-abcde-head-m692s" is forbidden: exceeded quota: small, '
    "requested: limits.memory=1610612736, used: limits.memory=0, limited: limits.memory=700Mi"
)
POLICY = (
    'admission webhook "validate.kyverno.svc-fail" denied the request: '
    "resource Pod/team/corpus-1-abcde-head-m692s was blocked: require-team-label"
)


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return an attempt whose pods have nodes but no running containers."""
    cluster = SimulatedCluster()
    cluster.launch("Initializing")
    for pod in cluster.list_of(Resource.POD):
        name = "ray-head" if pod["metadata"]["name"] == HEAD else "ray-worker"
        pod["spec"] = {"nodeName": "node-1"}
        pod["metadata"]["creationTimestamp"] = format_time(cluster.time)
        containers = [{"name": name, "state": CREATING}]
        pod["status"] = {"phase": "Pending", "containerStatuses": containers}
    cluster.settle()
    return cluster


def read_told(cluster: SimulatedCluster) -> tuple[str, str]:
    """Return reason and message of the condition Succeeded, equal on attempt and pipeline."""
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    (status,) = (status for _, status in cluster.attempts.values())
    told = [
        condition for condition in status.conditions if condition.type == ConditionType.SUCCEEDED
    ]
    assert summary is not None
    assert (summary.status, summary.reason) == ("Unknown", told[0].reason)
    if summary.reason != Reason.STARTING:
        assert summary.message == told[0].message
    return summary.reason, summary.message


def wait_in(cluster: SimulatedCluster, pod: str, reason: str, words: str, kind: str = "") -> None:
    state = {"waiting": {"reason": reason, "message": words}}
    name = "fetch" if kind else "ray-head"
    cluster.set_pod(pod, **{kind or "containerStatuses": [{"name": name, "state": state}]})


def run_unready(cluster: SimulatedCluster, pod: str, since: float) -> None:
    state = {"running": {"startedAt": format_time(since)}}
    message = "containers with unready status: [ray]"
    ready = {"type": "Ready", "status": "False", "message": message}
    cluster.set_pod(
        pod,
        phase="Running",
        conditions=[ready],
        containerStatuses=[{"name": "ray", "state": state}],
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("CreateContainerConfigError", 'secret "s3-credentials" not found'),
        ("CreateContainerError", "failed to reserve container name"),
        ("RunContainerError", "exec: no such file or directory"),
        ("CrashLoopBackOff", "back-off 10s restarting failed container"),
        ("PostStartHookError", "command exited with 1"),
        ("SomethingNew", ""),
    ],
)
def test_the_reason_of_a_waiting_container_is_reported(
    cluster: SimulatedCluster, reason: str, words: str
) -> None:
    wait_in(cluster, HEAD, reason, words)
    cluster.settle()
    told, message = read_told(cluster)
    assert told == Reason.CONTAINER_NOT_STARTED
    assert f"head pod {HEAD}: container ray-head: {reason}: {words or 'no message'}" in message
    assert Reason.CONTAINER_NOT_STARTED.advice in message
    wait_in(cluster, HEAD, "ContainerCreating", "")
    cluster.settle()
    assert read_told(cluster)[0] == Reason.STARTING


@pytest.mark.parametrize("usual", ["ContainerCreating", "PodInitializing"])
def test_ordinary_waiting_reasons_are_not_reported(cluster: SimulatedCluster, usual: str) -> None:
    wait_in(cluster, HEAD, usual, "")
    cluster.advance(59)
    assert read_told(cluster)[0] == Reason.STARTING


def test_an_invalid_image_name_counts_as_not_pulled(cluster: SimulatedCluster) -> None:
    wait_in(cluster, HEAD, "InvalidImageName", "couldn't parse image name")
    cluster.settle()
    assert read_told(cluster)[0] == Reason.IMAGE_NOT_PULLED


def test_init_containers_count(cluster: SimulatedCluster) -> None:
    words = 'configmap "mystages" not found'
    wait_in(cluster, WORKER, "CreateContainerConfigError", words, "initContainerStatuses")
    cluster.settle()
    told, message = read_told(cluster)
    assert told == Reason.CONTAINER_NOT_STARTED
    assert f"worker pod {WORKER}: init container fetch: CreateContainerConfigError" in message


def test_a_repeatedly_failing_init_container_stays_reported(cluster: SimulatedCluster) -> None:
    """The container waits, runs, and ends in turn, but the condition stays the same."""
    end = {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such bucket"}}
    for state in (RUNNING, end, {"waiting": {"reason": "PodInitializing"}}):
        containers = [{"name": "fetch", "state": state, "lastState": end}]
        cluster.set_pod(HEAD, initContainerStatuses=containers)
        cluster.settle()
        told, message = read_told(cluster)
        assert told == Reason.CONTAINER_NOT_STARTED
        assert "init container fetch: Error, exit code 3: no such bucket" in message
    assert [event.reason for event in cluster.events].count("Blocked") == 1


def test_a_container_that_can_not_run_is_reported_after_its_pod_is_gone(
    cluster: SimulatedCluster,
) -> None:
    words = 'exec: "ray": executable file not found in $PATH'
    end = {"terminated": {"exitCode": 128, "reason": "StartError", "message": words}}
    cluster.set_pod(HEAD, phase="Failed", containerStatuses=[{"name": "ray-head", "state": end}])
    cluster.lose_pod(HEAD)
    cluster.settle()
    told, message = read_told(cluster)
    assert told == Reason.CONTAINER_NOT_STARTED
    assert f"container ray-head: StartError, exit code 128: {words}" in message


def end_ray(cluster: SimulatedCluster, pod: str, line: str) -> None:
    """End Ray in a starting pod. KubeRay replaces the pod."""
    said = f'Traceback (most recent call last):\n  File "ray", line 6\n{line}\n'
    end = {"terminated": {"exitCode": 1, "reason": "Error", "message": said}}
    name = "ray-head" if pod == HEAD else "ray-worker"
    cluster.set_pod(pod, phase="Failed", containerStatuses=[{"name": name, "state": end}])
    cluster.settle()
    cluster.lose_pod(pod)
    cluster.settle()


@pytest.mark.parametrize(("pod", "role"), [(HEAD, "head"), (WORKER, "worker")])
def test_a_failed_start_of_ray_is_reported_with_the_last_line(
    cluster: SimulatedCluster, pod: str, role: str
) -> None:
    end_ray(cluster, pod, "ValueError: --num-cpus must be a number")
    told, message = read_told(cluster)
    assert told == Reason.CONTAINER_NOT_STARTED
    words = "Error, exit code 1: ValueError: --num-cpus must be a number"
    assert f"{role} pod {pod}: container ray-{role}: {words}" in message
    assert "Traceback" not in message
    assert cluster.attempts["corpus-1"][1].end_time is None


def test_a_terminated_ray_is_no_obstacle(cluster: SimulatedCluster) -> None:
    end_ray(cluster, HEAD, "Remaining processes will be killed.")
    assert read_told(cluster)[0] == Reason.STARTING


WANTING = (
    "ray.exceptions.AuthenticationError: Token authentication is enabled but no authentication"
    " token was found. Ensure that the token for the cluster is available in a local file"
)


def test_a_ray_without_its_required_token_ends_the_run_without_retry(
    cluster: SimulatedCluster,
) -> None:
    end_ray(cluster, HEAD, WANTING)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause == "InvalidSpec"
    assert status.message == (
        f"Ray requires a token, but head pod {HEAD} has none; set `ray.authOptions` to"
        " {mode: token}, and `ray.version` if you use your own image, or to {mode: disabled}"
    )
    cluster.advance(10_000)
    assert list(cluster.attempts) == ["corpus-1"]


def test_messages_of_a_run_about_tokens_end_nothing() -> None:
    cluster = SimulatedCluster.running()
    end_ray(cluster, WORKER, WANTING)
    assert cluster.attempts["corpus-1"][1].end_time is None


def test_a_pod_that_ends_as_it_is_deleted_is_no_obstacle(cluster: SimulatedCluster) -> None:
    ends = {"terminated": {"exitCode": 143, "reason": "Error"}}
    cluster.set_pod(WORKER, initContainerStatuses=[{"name": "fetch", "state": ends}])
    cluster.lose_pod(WORKER)
    cluster.settle()
    assert read_told(cluster)[0] == Reason.STARTING


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("FailedMount", 'MountVolume.SetUp failed for volume "s3": secret "s3" not found'),
        ("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-1": no such disk'),
        ("FailedMapVolume", "no such device"),
    ],
)
def test_an_unmounted_volume_is_reported(
    cluster: SimulatedCluster, reason: str, words: str
) -> None:
    cluster.warn("Pod", HEAD, reason, words)
    cluster.settle()
    told, message = read_told(cluster)
    assert told == Reason.VOLUME_NOT_MOUNTED
    assert f"head pod {HEAD}: {words}" in message
    # The volume is mounted now, and the image pull takes long.
    cluster.advance(200)
    assert read_told(cluster)[0] == Reason.STARTING


def test_a_missing_network_is_reported(cluster: SimulatedCluster) -> None:
    cluster.warn("Pod", WORKER, "FailedCreatePodSandBox", "failed to set up network")
    cluster.settle()
    assert read_told(cluster)[0] == Reason.CONTAINER_NOT_STARTED


def test_a_warning_about_an_earlier_pod_of_the_name_is_ignored(
    cluster: SimulatedCluster,
) -> None:
    cluster.warn("Pod", HEAD, "FailedMount", "not found")
    cluster.notices[0]["involvedObject"]["uid"] = "of-an-earlier-pod"
    cluster.settle()
    assert read_told(cluster)[0] == Reason.STARTING


def test_a_rejected_pod_is_reported_with_the_servers_message(
    cluster: SimulatedCluster,
) -> None:
    cluster.fail_replicas(POLICY)
    cluster.settle()
    told, message = read_told(cluster)
    assert told == Reason.OBJECT_REFUSED
    assert "RayCluster corpus-1-abcde: admission webhook" in message
    assert "require-team-label" in message
    assert "FailedCreateHeadPod" not in message
    cluster.advance(600)
    assert read_told(cluster) == (told, message)


def test_another_pod_name_in_a_repeated_rejection_is_no_news(cluster: SimulatedCluster) -> None:
    cluster.fail_replicas(QUOTA)
    cluster.settle()
    before = read_told(cluster)
    assert 'pods "corpus-1-abcde-head-…" is forbidden' in before[1]
    since = cluster.time
    cluster.time += 5
    cluster.fail_replicas(QUOTA.replace("m692s", "xdfvd"))
    for raycluster in cluster.list_of(Resource.RAYCLUSTER):
        raycluster["status"]["conditions"][0]["lastTransitionTime"] = format_time(since)
    assert cluster.pass_once().pipeline is None
    assert read_told(cluster) == before


def test_a_failed_pod_deletion_is_no_delay(cluster: SimulatedCluster) -> None:
    cluster.fail_replicas("pods not found", "FailedDeleteWorkerPod")
    cluster.settle()
    assert read_told(cluster)[0] == Reason.STARTING


@pytest.mark.parametrize("reason", ["FailedCreateHeadPod", "FailedCreateWorkerPod"])
def test_an_exhausted_quota_ends_the_attempt(cluster: SimulatedCluster, reason: str) -> None:
    cluster.fail_replicas(QUOTA, reason)
    cluster.settle()
    told, message = read_told(cluster)
    assert (told, "exceeded quota: small" in message) == (Reason.QUOTA_USED_UP, True)
    assert cluster.pass_once().wake_at == pytest.approx(cluster.time + 10, abs=5)
    cluster.advance(9)
    assert cluster.attempts["corpus-1"][1].end_time is None
    cluster.advance(3)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause == "QuotaExceeded"
    assert "exceeded quota: small, requested: limits.memory=1610612736" in status.message


def test_a_rejected_replacement_worker_does_not_end_the_run() -> None:
    cluster = SimulatedCluster.running()
    cluster.fail_replicas(QUOTA, "FailedCreateWorkerPod")
    cluster.advance(60)
    assert cluster.attempts["corpus-1"][1].end_time is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("RayJob", "FailedToCreateRayCluster"), ("Job", "FailedCreate")],
)
def test_rejected_objects_other_than_pods_are_reported(
    cluster: SimulatedCluster, kind: str, reason: str
) -> None:
    words = 'admission webhook "policy" denied the request: no'
    for pod in cluster.list_of(Resource.POD):
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    if kind == "RayJob":
        for resource, name in list(cluster.objects):
            if resource in {Resource.POD, Resource.RAYCLUSTER}:
                del cluster.objects[resource, name]
    cluster.time += 1
    cluster.warn(kind, "corpus-1", reason, words)
    cluster.settle()
    told, message = read_told(cluster)
    assert (told, f"{kind} corpus-1: {words}" in message) == (Reason.OBJECT_REFUSED, True)
    # The same event, from an earlier RayJob with this name.
    cluster.notices[0]["lastTimestamp"] = format_time(cluster.time - 60)
    cluster.settle()
    assert read_told(cluster)[0] == Reason.STARTING


@pytest.mark.parametrize("has_pods", [True, False])
def test_an_outdated_quota_event_ends_nothing(cluster: SimulatedCluster, has_pods: bool) -> None:
    """The event outlives its cause: KubeRay has created the objects in the meantime."""
    cluster.warn("RayJob", "corpus-1", "FailedToCreateRayCluster", QUOTA)
    cluster.time += 5
    for resource in (Resource.RAYCLUSTER, Resource.POD):
        for one in cluster.list_of(resource):
            one["metadata"]["creationTimestamp"] = format_time(cluster.time)
    if has_pods:
        cluster.set_pod("", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    else:
        cluster.lose_pod("")
    cluster.advance(20)
    assert read_told(cluster)[0] == Reason.STARTING
    assert cluster.attempts["corpus-1"][1].end_time is None


def test_the_quota_timeout_starts_when_the_quota_is_exhausted(cluster: SimulatedCluster) -> None:
    """The submitter is created when the cluster is ready, long after the RayJob."""
    cluster.set_pod("", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    for seconds in (40, 4, 4):
        cluster.advance(seconds)
        cluster.warn("Job", "corpus-1", "FailedCreate", QUOTA)
        cluster.settle()
        assert read_told(cluster)[0] == Reason.QUOTA_USED_UP
    cluster.advance(4)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause == "QuotaExceeded"


def test_a_pod_that_runs_and_is_not_ready_is_named_after_a_minute(
    cluster: SimulatedCluster,
) -> None:
    begun = cluster.time
    run_unready(cluster, WORKER, begun - 5)
    run_unready(cluster, HEAD, begun)
    probe = "Readiness probe failed: bash: line 1: wget: command not found"
    cluster.warn("Pod", HEAD, "Unhealthy", f"{probe}\n")
    cluster.advance(54)
    assert read_told(cluster)[0] == Reason.STARTING
    assert cluster.pass_once().wake_at == pytest.approx(begun + 56, abs=1)
    cluster.advance(7)
    told, message = read_told(cluster)
    assert told == Reason.POD_NOT_READY
    since = format_time(begun)[11:19]
    unready = "containers with unready status: [ray]"
    assert f"head pod {HEAD} runs but is not Ready since {since}: {unready}; {probe}" in message
    # The message contains a time instead of a duration, so an unchanged state needs no write.
    cluster.time += 100
    assert cluster.pass_once().pipeline is None


def make_late(cluster: SimulatedCluster) -> str:
    """Exceed the start deadline, and return the attempt's message."""
    cluster.advance(1801)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause == "SchedulingTimeout"
    assert status.message.startswith("the driver did not start within 1800 s: ")
    return status.message.partition("1800 s: ")[2]


def test_the_timeout_names_the_pod_that_is_not_ready(cluster: SimulatedCluster) -> None:
    run_unready(cluster, HEAD, cluster.time)
    words = "containers with unready status: [ray]"
    assert make_late(cluster) == f"head pod {HEAD} runs but is not Ready for 1801 s: {words}"


def test_the_timeout_names_the_reason_of_a_waiting_container(cluster: SimulatedCluster) -> None:
    run_unready(cluster, HEAD, cluster.time)
    wait_in(cluster, WORKER, "CreateContainerConfigError", 'secret "s3" not found')
    expected = f"worker pod {WORKER}: container ray-head: CreateContainerConfigError: secret"
    assert expected in make_late(cluster)


def test_the_timeout_names_the_rejected_object(cluster: SimulatedCluster) -> None:
    cluster.fail_replicas(POLICY)
    assert "require-team-label" in make_late(cluster)


@pytest.mark.parametrize(
    ("head", "worker", "words"),
    [
        ({"phase": "Pending"}, {}, f"head pod {HEAD}: container ray-head: ContainerCreating"),
        (
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            {
                "initContainerStatuses": [{"name": "wait-gcs-ready", "state": RUNNING}],
                "containerStatuses": [],
            },
            f"worker pod {WORKER}: init container wait-gcs-ready: runs",
        ),
    ],
)
def test_the_timeout_names_the_slowest_pod_if_nothing_is_wrong(
    cluster: SimulatedCluster, head: dict[str, Any], worker: dict[str, Any], words: str
) -> None:
    cluster.set_pod(HEAD, **head)
    cluster.set_pod(WORKER, **worker)
    assert make_late(cluster) == words


def test_a_start_is_checked_soon_and_then_less_often(cluster: SimulatedCluster) -> None:
    """Passes repeat at growing intervals, because a start without progress causes no event."""
    pauses = []
    for _ in range(12):
        plan = cluster.pass_once()
        assert plan.wake_at is not None
        pauses.append(round(plan.wake_at - cluster.time, 3))
        cluster.time = plan.wake_at
    assert pauses[0] == 5
    assert pauses == sorted(pauses)
    assert max(pauses) <= cluster.limits.resync
