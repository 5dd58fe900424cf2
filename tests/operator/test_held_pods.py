"""Pods held for inspection: only after the last attempt, and never beside another attempt's pods.

A hold must not delay anything else.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.enums import AttemptPhase, PipelinePhase
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.run.hold import BEFORE_START
from strandline_operator.model.plan import Create, Delete, Resource

HOLD, SETTLE = 1800.0, 4.0
BAD_SPEC = 64  # exit code of failures that are not retried


def run(hold: str | None = "30m", **fields: Any) -> SimulatedCluster:
    """Return a pipeline whose first attempt is running and whose failures are held."""
    cluster = SimulatedCluster()
    cluster.edit(holdOnFailure=hold, **fields)
    cluster.launch()
    cluster.settle()
    return cluster


def fail(cluster: SimulatedCluster, code: int = BAD_SPEC) -> None:
    """Fail the driver, and wait until the operator has all evidence."""
    cluster.outcome = DriverOutcome(exit_code=code, message="no such column")
    cluster.end_rayjob("Failed", "FAILED")
    cluster.settle()
    cluster.outcome = None
    cluster.advance(SETTLE)


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose run failed and whose pods are held."""
    cluster = run()
    fail(cluster)
    assert is_held(cluster)
    return cluster


def is_held(cluster: SimulatedCluster) -> bool:
    (newest,) = list(cluster.attempts.values())[-1:]
    return newest[1].phase is AttemptPhase.HELD


def is_going(cluster: SimulatedCluster) -> bool:
    return any("deletionTimestamp" in job["metadata"] for job in cluster.list_of(Resource.RAYJOB))


def read(cluster: SimulatedCluster, type_: ConditionType) -> tuple[str, str]:
    found = cluster.status.find_condition(type_)
    return ("", "") if found is None else (found.status, found.reason)


# --- Held attempts, and the duration of a hold


def test_the_pods_of_a_failed_run_are_kept_for_the_hold_time(cluster: SimulatedCluster) -> None:
    before = len(cluster.list_of(Resource.POD))
    cluster.advance(HOLD - SETTLE - 1)
    assert (is_held(cluster), is_going(cluster)) == (True, False)
    assert len(cluster.list_of(Resource.POD)) == before == 2
    cluster.advance(2)
    cluster.advance(SETTLE)
    assert (is_held(cluster), is_going(cluster)) == (False, True)
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].is_frozen
    assert read(cluster, ConditionType.SUCCEEDED) == ("False", "InvalidSpec")


def test_a_hold_is_reported_at_once_and_only_once(cluster: SimulatedCluster) -> None:
    (attempt,) = (status for _, status in cluster.attempts.values())
    succeeded = attempt.find_condition("Succeeded")
    assert succeeded is not None
    assert (succeeded.status, succeeded.reason) == ("Unknown", Reason.HELD)
    assert succeeded.message == "no such column; its pods are kept until 1970-01-12T14:16:40Z"
    # Tools read a true Stalled as a failure, and an unknown Succeeded as a state that may change.
    assert read(cluster, ConditionType.STALLED) == ("True", Reason.HELD)
    assert read(cluster, ConditionType.SUCCEEDED) == ("Unknown", Reason.HELD)
    assert (cluster.status.phase, cluster.status.state) == (
        PipelinePhase.FAILED,
        "attempt 1 failed with InvalidSpec and is not retried; its pods are kept until "
        "1970-01-12T14:16:40Z",
    )
    cluster.advance(600)
    told = [event for event in cluster.events if event.reason == EventReason.PODS_HELD]
    assert [(event.is_warning, event.attempt) for event in told] == [(True, None)]
    assert "`strandline.dev/retry`" in told[0].message
    assert cluster.pass_once().pipeline is None


def test_kuberay_keeps_the_pods_for_the_hold_time() -> None:
    (rayjob,) = run().list_of(Resource.RAYJOB)
    assert rayjob["spec"]["ttlSecondsAfterFinished"] == HOLD + 60
    (rayjob,) = SimulatedCluster.running().list_of(Resource.RAYJOB)
    assert rayjob["spec"]["ttlSecondsAfterFinished"] == 60


@pytest.mark.parametrize("code", [0, 1, 75, 137])
def test_an_attempt_that_succeeded_or_is_retried_is_not_held(code: int) -> None:
    cluster, plain = run(), SimulatedCluster.running()
    for each in (cluster, plain):
        fail(each, code)
        assert (is_held(each), each.attempts["corpus-1"][1].held_until) == (False, None)
        each.finish_teardown()
    assert cluster.status.next_attempt_time == plain.status.next_attempt_time


def test_the_last_retry_is_held() -> None:
    cluster = run(retry={"maxRetries": 1, "jitter": "none"})
    fail(cluster, 1)
    assert not is_held(cluster)
    cluster.finish_teardown()
    cluster.run_next()
    fail(cluster, 1)
    assert is_held(cluster)
    assert read(cluster, ConditionType.STALLED) == ("True", Reason.HELD)


@pytest.mark.parametrize("cause", ["cancel", "suspend", "deadline"])
def test_an_intentionally_stopped_attempt_is_not_held(cause: str) -> None:
    cluster = run(deadlines={"attempt": "1h"}, retry={"maxRetries": 0})
    if cause == "cancel":
        cluster.annotate("cancel", "enough")
    elif cause == "suspend":
        cluster.edit(suspend=True)
    cluster.advance(3700)
    assert (is_held(cluster), is_going(cluster)) == (False, True)


def test_an_attempt_without_a_head_is_not_held() -> None:
    cluster = run()
    cluster.lose_pod("-head")
    fail(cluster)
    assert (is_held(cluster), is_going(cluster)) == (False, True)


def test_a_lost_head_ends_the_hold(cluster: SimulatedCluster) -> None:
    cluster.set_pod("-head", phase="Failed")
    cluster.advance(1)
    assert not is_held(cluster)
    cluster.advance(SETTLE)
    assert is_going(cluster)


def test_nothing_is_held_before_the_cause_is_known() -> None:
    """Late evidence counts, because it may cause a retry."""
    cluster = run(retry={"maxRetries": 0, "jitter": "none"})
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed")
    cluster.settle()
    assert not is_held(cluster)
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.set_pod("-head", conditions=[preempted])
    cluster.advance(1)
    cluster.advance(SETTLE)
    assert not is_held(cluster)
    assert not [event for event in cluster.events if event.reason == EventReason.PODS_HELD]
    cluster.finish_teardown()
    assert cluster.status.next_attempt_time is not None


def test_an_edit_of_the_spec_can_shorten_a_hold(cluster: SimulatedCluster) -> None:
    cluster.edit(holdOnFailure="1m")
    cluster.advance(61)
    cluster.advance(SETTLE)
    assert is_going(cluster)


def test_the_teardown_deadline_starts_after_a_hold() -> None:
    """Otherwise the duration of the hold would make the teardown overdue and force the deletion."""
    cluster = run()
    fail(cluster)
    cluster.advance(HOLD)
    cluster.advance(SETTLE)
    deleted = [action for plan in cluster.plans for action in plan.actions]
    assert [each.resource for each in deleted if isinstance(each, Delete)] == [Resource.RAYJOB]
    assert read(cluster, ConditionType.SUCCEEDED)[1] == Reason.TEARING_DOWN
    cluster.advance(cluster.limits.teardown + 1)
    assert read(cluster, ConditionType.SUCCEEDED)[1] == Reason.TEARDOWN_OVERDUE


# --- Ends of a hold


def ask(cluster: SimulatedCluster, way: str) -> None:
    if way in {"cancel", "retry"}:
        cluster.annotate(way, "now")
    elif way == "suspend":
        cluster.edit(suspend=True)
    else:
        cluster.edit(runId="second")


@pytest.mark.parametrize("way", ["cancel", "retry", "suspend", "run"])
def test_a_user_request_ends_the_hold(cluster: SimulatedCluster, way: str) -> None:
    cluster.advance(100)
    ask(cluster, way)
    cluster.settle()
    assert not is_held(cluster)
    assert cluster.attempts["corpus-1"][1].held_until == cluster.time
    cluster.advance(SETTLE)
    assert is_going(cluster)
    assert list(cluster.attempts) == ["corpus-1"]
    cluster.finish_teardown()
    cluster.settle()
    assert ("corpus-2" in cluster.attempts) is (way in {"retry", "run"})
    assert cluster.attempts["corpus-1"][1].cause is Cause.INVALID_SPEC


def test_a_hold_ends_before_the_next_scheduled_run() -> None:
    cluster = run(schedule={"cron": "*/10 * * * *"})
    fail(cluster)
    (attempt,) = (status for _, status in cluster.attempts.values())
    schedule = cluster.status.schedule
    assert schedule is not None
    assert schedule.next_time is not None
    assert attempt.held_until == schedule.next_time - BEFORE_START
    cluster.time = attempt.held_until
    cluster.advance(SETTLE)
    cluster.finish_teardown()
    cluster.time = schedule.next_time
    cluster.settle()
    assert "corpus-2" in cluster.attempts
    assert not [event for event in cluster.events if event.reason == EventReason.SCHEDULE_MISSED]


# --- Never beside another attempt

STEPS = ("cancel", "retry", "suspend", "resume", "run", "time", "little", "sweep", "fail", "start")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(STEPS), max_size=25),
    st.sampled_from([1, BAD_SPEC, 75, 137]),
    st.integers(0, 2),
)
def test_law_held_pods_never_coexist_with_another_attempt(
    steps: list[str], code: int, retries: int
) -> None:
    cluster = run(retry={"maxRetries": retries, "jitter": "none"})
    for number, step in enumerate(steps):
        if step in {"cancel", "retry"}:
            cluster.annotate(step, str(number))
        elif step in {"suspend", "resume"}:
            cluster.edit(suspend=step == "suspend")
        elif step == "run":
            cluster.edit(runId=f"run-{number}")
        elif step == "fail":
            fail(cluster, code)
        elif step == "sweep":
            cluster.sweep()
        elif step == "start" and any(
            "status" not in job for job in cluster.list_of(Resource.RAYJOB)
        ):
            cluster.start_rayjob()
        cluster.advance({"time": HOLD, "little": SETTLE}.get(step, 0.0))
        check_no_two(cluster)
    assert cluster.most_running <= 1


def check_no_two(cluster: SimulatedCluster) -> None:
    """Check that RayJobs, RayClusters, and pods belong to at most one attempt."""
    kinds = (Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD)
    found = [body["metadata"]["labels"] for kind in kinds for body in cluster.list_of(kind)]
    assert len({labels["strandline.dev/attempt"] for labels in found}) <= 1
    held = [name for name, (_, status) in cluster.attempts.items() if status.phase == "Held"]
    assert held in ([], list(cluster.attempts)[-1:])
    # No attempt is scheduled while pods are held.
    if held:
        assert cluster.status.next_attempt_time is None


@settings(deadline=None)
@given(st.lists(st.sampled_from([1, 75, 137, 3]), min_size=1, max_size=4))
def test_law_a_hold_delays_no_retry(codes: list[int]) -> None:
    """A hold changes nothing while the run still retries."""
    made, often = [], {"maxRetries": 9, "jitter": "none"}
    for cluster in (run(retry=often), run(None, retry=often)):
        for code in codes:
            fail(cluster, code)
            cluster.finish_teardown()
            cluster.run_next()
        made.append(
            [
                (action.resource, action.manifest["metadata"]["name"], at)
                for at, plan in enumerate(cluster.plans)
                for action in plan.actions
                if isinstance(action, Create)
            ]
        )
        made[-1].append((cluster.time,))  # type: ignore[arg-type]
    assert made[0] == made[1]
