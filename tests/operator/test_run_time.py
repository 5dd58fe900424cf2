"""The time that `deadlines.run` counts: only time in which the run could make progress."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import parse_status
from strandline_api.status.reasons import ConditionType
from strandline_api.status.usage.run_clock import RunClock
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Turn

MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running, with a deadline of an hour for the run."""
    cluster = SimulatedCluster.running()
    cluster.edit(deadlines={"run": "1h"})
    cluster.settle()
    return cluster


def ending(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.status, found.reason


def hold_back(cluster: SimulatedCluster, seconds: float) -> None:
    """Suspend the pipeline for some seconds, after the attempt has been torn down."""
    cluster.edit(suspend=True)
    cluster.settle()
    if not all(status.is_frozen for _, status in cluster.attempts.values()):
        cluster.finish_teardown()
    cluster.advance(seconds)
    cluster.edit(suspend=False)
    cluster.settle()


def test_time_in_suspension_does_not_count(cluster: SimulatedCluster) -> None:
    cluster.advance(30 * MINUTE)
    hold_back(cluster, 10 * HOUR)
    cluster.start_rayjob()
    cluster.advance(29 * MINUTE)
    hold_back(cluster, 10 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    assert ending(cluster) == ("Unknown", "Running")
    cluster.advance(2 * MINUTE)
    cluster.finish_teardown()
    assert ending(cluster) == ("False", "DeadlineExceeded")


def test_a_run_created_suspended_has_its_whole_time() -> None:
    cluster = SimulatedCluster()
    cluster.edit(suspend=True, deadlines={"run": "1h"})
    cluster.settle()
    cluster.advance(10 * HOUR)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.start_rayjob()
    cluster.advance(59 * MINUTE)
    assert ending(cluster) == ("Unknown", "Running")
    cluster.advance(2 * MINUTE)
    cluster.finish_teardown()
    assert ending(cluster) == ("False", "DeadlineExceeded")


def test_time_in_a_queue_does_not_count() -> None:
    cluster = SimulatedCluster()
    cluster.edit(deadlines={"run": "1h"})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = True
    rayjob["status"] = {"jobDeploymentStatus": "Suspended"}
    cluster.settle()
    cluster.advance(10 * HOUR)
    assert ending(cluster) == ("Unknown", "Queued")
    rayjob["spec"]["suspend"] = False
    del rayjob["status"]
    cluster.settle()
    cluster.start_rayjob()
    cluster.advance(59 * MINUTE)
    assert ending(cluster) == ("Unknown", "Running")
    cluster.advance(2 * MINUTE)
    cluster.finish_teardown()
    assert ending(cluster) == ("False", "DeadlineExceeded")


def test_a_retry_after_a_suspension_is_not_after_the_deadline(cluster: SimulatedCluster) -> None:
    hold_back(cluster, 10 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(1)
    assert cluster.status.next_attempt_time is not None
    cluster.advance(30)
    hold_back(cluster, 10 * HOUR)
    assert ending(cluster)[0] == "Unknown"


def test_a_run_waiting_for_a_user_ends_at_its_deadline_too(cluster: SimulatedCluster) -> None:
    cluster.turn = Turn(is_open=False)
    cluster.finish(1)
    cluster.advance(59 * MINUTE)
    assert ending(cluster) == ("Unknown", "DispatchStopped")
    cluster.advance(2 * MINUTE)
    assert ending(cluster) == ("False", "DeadlineExceeded")
    assert cluster.events[-1].reason == EventReason.RUN_FAILED
    assert "deadlines.run" in cluster.status.state
    assert cluster.status.retry_cause is Cause.DEADLINE_EXCEEDED
    cluster.turn = Turn()
    cluster.advance(10 * HOUR)
    assert list(cluster.attempts) == ["corpus-1"]
    assert not cluster.pipeline["metadata"]["finalizers"]


def test_a_new_run_has_its_own_clock(cluster: SimulatedCluster) -> None:
    hold_back(cluster, 10 * HOUR)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()
    cluster.edit(suspend=True)
    cluster.advance(HOUR)
    cluster.edit(suspend=False, runId="second")
    cluster.settle()
    cluster.start_rayjob()
    cluster.advance(61 * MINUTE)
    cluster.finish_teardown()
    assert ending(cluster) == ("False", "DeadlineExceeded")


def test_a_finished_run_writes_no_clock(cluster: SimulatedCluster) -> None:
    cluster.finish()
    before = cluster.status.run_clock
    cluster.edit(suspend=True)
    cluster.advance(HOUR)
    assert cluster.status.run_clock == before


def test_a_suspension_is_written_once_and_read_again(cluster: SimulatedCluster) -> None:
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    began = cluster.status.run_clock
    assert began is not None
    assert cluster.pass_once().pipeline is None
    cluster.status = parse_status(cluster.status.to_json())
    cluster.advance(HOUR)
    assert cluster.status.run_clock == began


def test_a_clock_set_back_does_not_reduce_the_time() -> None:
    paused = RunClock().tick(100.0, is_paused=True)
    assert paused.tick(90.0, is_paused=False) == RunClock()
    assert paused.count_paused(90.0) == 0.0
