"""For every reason, failures of KubeRay itself are distinguished from driver failures.

The table has one row for each way in which KubeRay 1.7.0 ends a RayJob. The rows follow each place
in `rayjob_controller.go` that sets `Status.Reason`, and quote its messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_operator.decide.evidence.rayjobs import find_rayjob_evidence
from strandline_operator.model.objects import RayJob
from strandline_operator.model.plan import Resource

GRACE = "JobDeploymentStatusTransitionGracePeriodExceeded"
SUBMITTER_FINISHED = (
    "The RayJob submitter finished at 2026-11-25 23:52:55 but the ray job did not reach terminal "
    "state within 30s"
)
NO_TRANSITION = (
    "JobDeploymentStatus does not transition to Complete or Failed within the grace period after "
    "JobStatus reaches a terminal state."
)
BACKOFF = (
    "Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the "
    "specified backoff limit"
)
ENTRYPOINT = "Job entrypoint command failed with exit code"
LOGS = "last available logs (truncated to 20,000 chars):\n"


class Row(NamedTuple):
    """A status and its expected cause, or None if the driver completed or evidence is missing."""

    deployment: str
    job: str
    reason: str
    message: str
    cause: Cause | None


KUBERAYS = [
    Row("ValidationFailed", "RUNNING", "ValidationFailed", "is invalid", Cause.INVALID_SPEC),
    Row("ValidationFailed", "", "", "", Cause.INVALID_SPEC),
    Row("Failed", "RUNNING", "DeadlineExceeded", "has passed", Cause.DEADLINE_EXCEEDED),
    Row("Failed", "FAILED", "DeadlineExceeded", "has passed", Cause.DEADLINE_EXCEEDED),
    Row("Failed", "", "PreRunningDeadlineExceeded", "has passed", Cause.SCHEDULING_TIMEOUT),
    Row("Failed", "RUNNING", "JobStatusCheckTimeoutExceeded", "have been failing", Cause.STALLED),
    Row("Failed", "", "SubmissionFailed", BACKOFF, Cause.SUBMISSION_FAILED),
    Row("Failed", "RUNNING", "SubmissionFailed", BACKOFF, Cause.SUBMISSION_FAILED),
    Row(
        "Failed",
        "RUNNING",
        "SubmissionFailed",
        "Ray head pod container ray-job-submitter terminated with exit code 1: Error",
        Cause.SUBMISSION_FAILED,
    ),
    Row(
        "Failed",
        "PENDING",
        "SubmissionFailed",
        "Ray head pod submitter container ray-job-submitter terminated after exceeding the "
        "maximum restart count",
        Cause.SUBMISSION_FAILED,
    ),
    Row(
        "Failed",
        "RUNNING",
        "AppFailed",
        "Submitter completed but Ray job not found in RayCluster.",
        Cause.SUBMISSION_FAILED,
    ),
    Row("Failed", "", "AppFailed", "Ray head pod not found.", Cause.SUBMISSION_FAILED),
    Row("Failed", "FAILED", "AppFailed", "Ray head pod not found.", Cause.SUBMISSION_FAILED),
    Row("Failed", "FAILED", GRACE, SUBMITTER_FINISHED, Cause.SUBMISSION_FAILED),
    Row("Retrying", "FAILED", GRACE, SUBMITTER_FINISHED, Cause.SUBMISSION_FAILED),
    Row("Failed", "FAILED", "SomethingNewer", "of a later release", None),
    Row("Failed", "RUNNING", "SomethingNewer", "of a later release", None),
]
RAYS = [
    Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} 1, {LOGS}x", Cause.APPLICATION_ERROR),
    Row("Retrying", "FAILED", "AppFailed", f"{ENTRYPOINT} 1, {LOGS}x", Cause.APPLICATION_ERROR),
    Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} 75. No logs", Cause.INTERRUPTED),
    Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} -9, {LOGS}x", Cause.KILLED),
    Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} 64, {LOGS}exit code 1", Cause.INVALID_SPEC),
    Row("Failed", "FAILED", "AppFailed", "Traceback: exit code 64", Cause.APPLICATION_ERROR),
    Row("Failed", "FAILED", "AppFailed", "", Cause.APPLICATION_ERROR),
    Row(
        "Failed",
        "FAILED",
        "AppFailed",
        "Job supervisor actor died: worker exits with exit code 1",
        Cause.KILLED,
    ),
    Row(
        "Failed",
        "FAILED",
        "AppFailed",
        "Job supervisor actor failed to start within 900.0 seconds.",
        Cause.SUBMISSION_FAILED,
    ),
    Row(
        "Failed",
        "FAILED",
        "AppFailed",
        "Job supervisor actor could not be scheduled: no node",
        Cause.SUBMISSION_FAILED,
    ),
    Row("Failed", "FAILED", "AppFailed", "runtime_env setup failed: pip", Cause.SUBMISSION_FAILED),
    Row(
        "Failed",
        "FAILED",
        "AppFailed",
        "Unexpected error occurred: failed to get job supervisor.",
        Cause.SUBMISSION_FAILED,
    ),
    Row("Failed", "FAILED", GRACE, NO_TRANSITION, Cause.APPLICATION_ERROR),
    Row("Complete", "STOPPED", GRACE, NO_TRANSITION, Cause.INTERRUPTED),
    Row("Complete", "STOPPED", "", "Job was intentionally stopped.", Cause.INTERRUPTED),
    Row("Failed", "STOPPED", "SubmissionFailed", BACKOFF, Cause.INTERRUPTED),
]
# Ray reports a completed driver. KubeRay's reason concerns only the submitter.
DONE = [
    Row("Complete", "SUCCEEDED", "", "Job finished successfully.", None),
    Row("Complete", "SUCCEEDED", GRACE, NO_TRANSITION, None),
    Row("Failed", "SUCCEEDED", "SubmissionFailed", BACKOFF, None),
    Row("Failed", "SUCCEEDED", "DeadlineExceeded", "has passed", None),
    Row("Failed", "SUCCEEDED", "AppFailed", "Ray head pod not found.", None),
]
# All reasons in KubeRay's `rayjob_types.go`.
REASONS = {
    "SubmissionFailed",
    "DeadlineExceeded",
    "PreRunningDeadlineExceeded",
    "AppFailed",
    GRACE,
    "JobStatusCheckTimeoutExceeded",
    "ValidationFailed",
}


def end(cluster: SimulatedCluster, row: Row) -> None:
    fields: dict[str, Any] = {"reason": row.reason, "message": row.message}
    cluster.end_rayjob(row.deployment, row.job, **fields)
    cluster.settle()


def test_every_reason_of_kuberays_source_has_a_row() -> None:
    assert {row.reason for row in (*KUBERAYS, *RAYS)} - {"", "SomethingNewer"} == REASONS


@pytest.mark.parametrize("row", [*KUBERAYS, *RAYS], ids=str)
def test_each_status_yields_its_expected_cause(row: Row) -> None:
    status = {
        "jobDeploymentStatus": row.deployment,
        "jobStatus": row.job,
        "reason": row.reason,
        "message": row.message,
    }
    found = [seen.cause for seen in find_rayjob_evidence(RayJob.read({"status": status}))]
    assert found == ([] if row.cause is None else [row.cause])


@pytest.mark.parametrize("row", KUBERAYS, ids=str)
def test_kuberays_own_failures_are_no_application_errors(row: Row) -> None:
    cluster = SimulatedCluster.running()
    end(cluster, row)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is (row.cause or Cause.UNKNOWN)
    assert row.message in status.message


@pytest.mark.parametrize("row", DONE, ids=str)
def test_a_completed_job_is_complete_despite_its_submitter(
    row: Row,
) -> None:
    cluster = SimulatedCluster.running()
    end(cluster, row)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is None
    assert cluster.status.phase == "Succeeded"


LOST = [
    Row("Failed", "FAILED", GRACE, SUBMITTER_FINISHED, None),
    Row("Failed", "RUNNING", "SubmissionFailed", BACKOFF, None),
    Row("Failed", "RUNNING", "JobStatusCheckTimeoutExceeded", "have been failing", None),
    Row("Failed", "RUNNING", "AppFailed", "Submitter completed but Ray job not found in", None),
    Row("Failed", "RUNNING", "AppFailed", "Ray head pod not found.", None),
]


def drain(cluster: SimulatedCluster, ending: str) -> None:
    """Evict pods, which are still terminating."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    cluster.set_pod(ending, conditions=[target])
    for pod in cluster.list_of(Resource.POD):
        if pod["metadata"]["name"].endswith(ending):
            pod["metadata"]["deletionTimestamp"] = "2026-11-25T23:52:29Z"


def leave(cluster: SimulatedCluster) -> None:
    """Restart the operator after an eviction. All pods disappear in the meantime."""
    cluster.lose_pod("")
    cluster.gone_pods.clear()
    cluster.seen.clear()
    cluster.restart(73)


@pytest.mark.parametrize("row", LOST, ids=str)
def test_a_drain_that_evicts_both_operators_counts_as_an_eviction(row: Row) -> None:
    """The last observation of the evicted operator is a terminating head."""
    cluster = SimulatedCluster.running()
    drain(cluster, "head")
    cluster.settle()
    assert cluster.attempts["corpus-1"][1].end_time is None
    leave(cluster)
    end(cluster, row)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.EVICTED
    assert cluster.status.state.startswith("disruption 1 of 100, retry at ")
    assert [event.reason for event in cluster.events].count(EventReason.RETRY_SCHEDULED) == 1


@pytest.mark.parametrize("row", LOST, ids=str)
def test_a_head_lost_unobserved_interrupts_its_driver(row: Row) -> None:
    cluster = SimulatedCluster.running()
    leave(cluster)
    end(cluster, row)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.INTERRUPTED
    assert status.message == "the head pod is gone for an unknown reason"
    assert cluster.status.state.startswith("disruption 1 of 100, retry at ")


def test_a_reported_failure_takes_precedence_over_a_lost_head() -> None:
    cluster = SimulatedCluster.running()
    leave(cluster)
    end(cluster, Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} 1, {LOGS}x", None))
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.APPLICATION_ERROR


def test_a_head_deleted_with_its_cluster_explains_nothing() -> None:
    """KubeRay deletes the cluster a minute after the end, while the operator is stopped."""
    cluster = SimulatedCluster.running()
    leave(cluster)
    for resource, name in list(cluster.objects):
        if resource == Resource.RAYCLUSTER:
            del cluster.objects[resource, name]
    end(cluster, LOST[1])
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.SUBMISSION_FAILED


def test_a_withdrawn_disruption_of_the_head_does_not_count() -> None:
    """Kubernetes may withdraw a disruption until it deletes the pod."""
    cluster = SimulatedCluster.running()
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.set_pod("head", conditions=[target])
    cluster.settle()
    cluster.set_pod("head", conditions=[])
    cluster.settle()
    end(cluster, Row("Failed", "FAILED", "AppFailed", f"{ENTRYPOINT} 1, {LOGS}x", None))
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.APPLICATION_ERROR


def test_a_driver_completing_in_its_grace_period_is_complete() -> None:
    cluster = SimulatedCluster.running()
    drain(cluster, "head")
    cluster.settle()
    end(cluster, DONE[0])
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is None
