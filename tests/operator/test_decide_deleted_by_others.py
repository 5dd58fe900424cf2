"""After others delete the operator's objects, the run continues and makes nothing twice."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def truth(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.status, found.reason


def finish(cluster: SimulatedCluster) -> None:
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.end_rayjob()
    cluster.settle()
    cluster.finish_teardown()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (None, Cause.INTERRUPTED),
        (1, Cause.APPLICATION_ERROR),
        (64, Cause.INVALID_SPEC),
        (75, Cause.INTERRUPTED),
        (137, Cause.INTERRUPTED),
        (0, None),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_rayjob_deleted_by_others_interrupts_a_silent_driver(
    cluster: SimulatedCluster, code: int | None, cause: Cause | None, *, is_late: bool
) -> None:
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    if is_late:
        cluster.settle()
        assert cluster.attempts["corpus-1"][1].cause is Cause.INTERRUPTED
    cluster.outcome = None if code is None else DriverOutcome(exit_code=code, message="it said so")
    cluster.settle()
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is cause
    if code is None:
        assert status.message == "the RayJob was deleted, but not by the operator"
        assert cluster.status.state.startswith("disruption 1 of 100, retry at ")


def lose_submission(cluster: SimulatedCluster) -> None:
    """Fail the RayJob as KubeRay does after the submitter lost the driver."""
    cluster.end_rayjob("Failed", "", reason="SubmissionFailed", message="the submitter failed")
    cluster.settle()


def test_a_force_deleted_head_interrupts_its_driver(cluster: SimulatedCluster) -> None:
    cluster.lose_pod("head")
    lose_submission(cluster)
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause is Cause.INTERRUPTED
    assert status.message == "the head pod corpus-1-head was deleted by force"
    assert cluster.status.state.startswith("disruption 1 of 100, retry at ")


def test_a_head_with_ended_containers_was_not_force_deleted(
    cluster: SimulatedCluster,
) -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    cluster.set_pod("head", containerStatuses=[{"name": "ray-head", "state": ended}])
    cluster.lose_pod("head")
    lose_submission(cluster)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.SUBMISSION_FAILED


def test_deletions_of_the_teardown_do_not_explain_the_end(cluster: SimulatedCluster) -> None:
    lose_submission(cluster)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is Cause.SUBMISSION_FAILED


def test_a_lost_head_does_not_override_the_drivers_own_report(cluster: SimulatedCluster) -> None:
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.lose_pod("head")
    lose_submission(cluster)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].cause is not Cause.INTERRUPTED


def test_an_attempt_deleted_by_others_is_followed_by_another(
    cluster: SimulatedCluster,
) -> None:
    cluster.attempts.clear()
    cluster.settle()
    assert truth(cluster) == ("Unknown", "WaitingToRetry")
    assert [(attempt.number, attempt.cause) for attempt in cluster.status.attempts] == [
        (1, Cause.INTERRUPTED)
    ]
    cluster.advance(61)
    assert list(cluster.attempts) == ["corpus-2"]
    # The first attempt's objects are deleted before the second attempt's RayJob is created.
    assert [rayjob["metadata"]["name"] for rayjob in cluster.list_of(Resource.RAYJOB)] == [
        "corpus-1"
    ]
    for key in [key for key in cluster.objects if key[0] != Resource.CLAIM]:
        del cluster.objects[key]
    cluster.settle()
    cluster.start_rayjob()
    finish(cluster)
    assert truth(cluster) == ("True", "Completed")


def test_a_finished_run_does_not_replace_deleted_attempts(cluster: SimulatedCluster) -> None:
    finish(cluster)
    cluster.attempts.clear()
    cluster.advance(1000)
    assert truth(cluster) == ("True", "Completed")
    assert not cluster.attempts
