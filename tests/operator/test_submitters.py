"""KubeRay reports Running before the submitter has a pod; a start lasts until Ray has the job."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.plan import Resource

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LIMITS = (
    'Error creating: pods "corpus-1-ffqz5" is forbidden: failed quota: team: '
    "must specify limits.cpu for: ray-job-submitter"
)
USED_UP = (
    'Error creating: pods "corpus-1-ffqz5" is forbidden: exceeded quota: team, '
    "requested: pods=1, used: pods=2, limited: pods=2"
)
SCOPES = (
    'Error creating: pods "corpus-1-ffqz5" is forbidden: insufficient quota to match these '
    "scopes: [{PriorityClass In [high]}]"
)
POLICY = (
    'Error creating: pods "corpus-1-ffqz5" is forbidden: violates PodSecurity "restricted:latest"'
)


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a Running RayJob with ready pods and a submitter Job without a pod."""
    cluster = SimulatedCluster()
    cluster.launch("Running")
    cluster.set_pod("", **READY)
    cluster.advance(1)
    return cluster


def read_told(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.reason, found.message


def status_of(cluster: SimulatedCluster) -> Any:
    return cluster.attempts["corpus-1"][1]


def refuse(cluster: SimulatedCluster, words: str) -> None:
    """Report the Job controller's failure to make the pod."""
    cluster.warn("Job", "corpus-1", "FailedCreate", words)
    cluster.settle()


def add_submitter(cluster: SimulatedCluster, **status: Any) -> None:
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    template = rayjob["spec"]["submitterPodTemplate"]
    cluster.add_pod("corpus-1-wq2x4", template["metadata"]["labels"], **status)


@pytest.mark.parametrize("words", [LIMITS, USED_UP, SCOPES])
def test_a_submitter_rejected_by_a_quota_is_reported_and_ends_soon(
    cluster: SimulatedCluster, words: str
) -> None:
    refuse(cluster, words)
    reason, message = read_told(cluster)
    assert reason == Reason.QUOTA_USED_UP
    assert f"Job corpus-1: {words.replace('ffqz5', '…')}" in message
    cluster.advance(11)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.QUOTA_EXCEEDED
    assert words.partition(": ")[2].replace("ffqz5", "…") in status_of(cluster).message


def test_a_submitter_rejected_by_a_policy_ends_after_five_minutes(
    cluster: SimulatedCluster,
) -> None:
    """The head and the workers occupy nodes without work during these minutes."""
    refuse(cluster, POLICY)
    assert read_told(cluster)[0] == Reason.OBJECT_REFUSED
    cluster.advance(290)
    assert status_of(cluster).end_time is None
    cluster.advance(20)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SUBMISSION_FAILED
    assert "violates PodSecurity" in status_of(cluster).message


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_later_worker_does_not_hide_a_rejected_submitter(
    cluster: SimulatedCluster, phase: str
) -> None:
    refuse(cluster, LIMITS)
    cluster.time += 5
    for pod in cluster.list_of(Resource.POD):
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.set_pod("cpu", phase=phase, conditions=[])
    cluster.settle()
    assert read_told(cluster)[0] == Reason.QUOTA_USED_UP


def test_a_later_created_submitter_no_longer_counts_as_rejected(cluster: SimulatedCluster) -> None:
    refuse(cluster, USED_UP)
    cluster.time += 5
    add_submitter(cluster, **READY)
    for pod in cluster.list_of(Resource.POD):
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.advance(20)
    assert read_told(cluster)[0] == Reason.STARTING
    assert status_of(cluster).end_time is None


def test_a_submitter_with_a_missing_image_is_reported(cluster: SimulatedCluster) -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    containers = [{"name": "ray-job-submitter", "state": waiting}]
    add_submitter(cluster, phase="Pending", containerStatuses=containers)
    cluster.advance(1)
    assert read_told(cluster)[0] == Reason.IMAGE_NOT_PULLED


def test_a_refusal_ends_nothing_once_the_driver_answers(cluster: SimulatedCluster) -> None:
    """The driver answers the operator before KubeRay reports the driver."""
    cluster.progress = Progress(finished=1, time=cluster.time)
    cluster.settle()
    refuse(cluster, LIMITS)
    cluster.advance(400)
    assert read_told(cluster)[0] == "Running"
    assert status_of(cluster).end_time is None


def test_a_missing_submitter_is_looked_for_again(cluster: SimulatedCluster) -> None:
    wake = cluster.pass_once().wake_at
    assert wake is not None
    assert wake <= cluster.time + 6


ENTRYPOINT = "Job entrypoint command failed with exit code"
RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
PROXIES = {
    "mesh": {"name": "istio-proxy", "state": RUNS},
    "logs": {"name": "fluent-bit", "state": RUNS, "lastState": {"terminated": {"exitCode": 1}}},
}


def keep_submitter(cluster: SimulatedCluster, proxy: str, code: int) -> None:
    """End the submitter while its sidecar runs, so KubeRay waits for the Job."""
    ended = {"exitCode": code, "finishedAt": format_time(cluster.time), "reason": "Completed"}
    own = {"name": "ray-job-submitter", "state": {"terminated": ended}}
    add_submitter(cluster, phase="Running", containerStatuses=[PROXIES[proxy], own])


def report(cluster: SimulatedCluster, job: str, message: str = "") -> None:
    """Set the job status that KubeRay reads from Ray, while the submitter's Job runs."""
    cluster.end_rayjob("Running", job, message=message)
    cluster.settle()


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize(
    ("job", "message", "cause", "state"),
    [
        ("SUCCEEDED", "Job finished successfully.", None, "run 'first' completed"),
        ("FAILED", f"{ENTRYPOINT} 1, last available logs:", Cause.APPLICATION_ERROR, "retry 1 of"),
        ("FAILED", f"{ENTRYPOINT} 64. No logs.", Cause.INVALID_SPEC, "attempt 1 ended with Inv"),
        ("STOPPED", "Job was intentionally stopped.", Cause.INTERRUPTED, "disruption 1 of 100"),
    ],
)
def test_an_endless_sidecar_does_not_hide_the_drivers_end(
    cluster: SimulatedCluster, proxy: str, job: str, message: str, cause: Cause | None, state: str
) -> None:
    """The operator can read neither the driver's pages nor the submitter's log."""
    report(cluster, "RUNNING")
    keep_submitter(cluster, proxy, code=0 if cause is None else 1)
    report(cluster, job, message)
    assert status_of(cluster).end_time is not None
    cluster.finish_teardown()
    assert status_of(cluster).cause is cause
    assert cluster.status.state.startswith(state)


def test_without_a_sidecar_kuberay_reports_the_end(cluster: SimulatedCluster) -> None:
    """Without a sidecar, the submitter's Job ends within seconds."""
    report(cluster, "RUNNING")
    ended = {"terminated": {"exitCode": 0, "finishedAt": format_time(cluster.time)}}
    own = {"name": "ray-job-submitter", "state": ended}
    add_submitter(cluster, phase="Succeeded", containerStatuses=[own])
    report(cluster, "SUCCEEDED")
    assert status_of(cluster).end_time is None


def test_the_drivers_own_report_is_awaited_and_takes_precedence(cluster: SimulatedCluster) -> None:
    report(cluster, "RUNNING")
    keep_submitter(cluster, "mesh", code=1)
    report(cluster, "FAILED", f"{ENTRYPOINT} 1, last available logs:")
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    cluster.advance(5)
    assert "deletionTimestamp" not in rayjob["metadata"]
    cluster.outcome = DriverOutcome(exit_code=3, message="2 sources failed")
    cluster.advance(5)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SOURCES_FAILED


def test_a_submitter_lost_during_the_run_is_a_failed_submission(
    cluster: SimulatedCluster,
) -> None:
    report(cluster, "RUNNING")
    keep_submitter(cluster, "mesh", code=1)
    cluster.advance(30)
    assert status_of(cluster).end_time is None
    cluster.advance(30)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SUBMISSION_FAILED


def test_a_missing_submitter_is_named_at_the_start_deadline(
    cluster: SimulatedCluster,
) -> None:
    """The cluster has no readable events."""
    cluster.advance(1802)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.SCHEDULING_TIMEOUT
    assert status_of(cluster).message.endswith(": Job corpus-1 has no pod to submit the driver")
