"""A second start of the driver within one RayJob ends the attempt, whatever the reason."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome

FIRST, SECOND = "2026-11-21T10:26:19Z", "2026-11-21T10:28:40Z"


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running, with Ray's start time."""
    cluster = SimulatedCluster.running()
    start(cluster, FIRST)
    return cluster


def start(cluster: SimulatedCluster, time: str | None) -> None:
    """Report the start time of the driver in the RayJob."""
    cluster.end_rayjob("Running", "RUNNING", rayJobInfo={} if time is None else {"startTime": time})
    cluster.settle()


def status_of(cluster: SimulatedCluster, name: str = "corpus-1") -> AttemptStatus:
    return cluster.attempts[name][1]


def test_a_second_start_under_the_same_head_ends_the_attempt(cluster: SimulatedCluster) -> None:
    start(cluster, SECOND)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.INTERRUPTED
    assert status_of(cluster).message == "RayJob corpus-1 started its driver a second time"
    assert cluster.status.next_attempt_time is not None


def test_a_second_start_during_an_outage_is_noticed_afterwards(
    cluster: SimulatedCluster,
) -> None:
    cluster.restart(3600.0)
    start(cluster, SECOND)
    assert status_of(cluster).end_time is not None


@pytest.mark.parametrize("time", [FIRST, None, "2026-11-21T10:26:19+00:00"])
def test_a_repeated_report_of_the_same_start_is_no_second_start(
    cluster: SimulatedCluster, time: str | None
) -> None:
    start(cluster, time)
    start(cluster, FIRST)
    assert status_of(cluster).end_time is None


def test_a_completed_run_stays_complete_after_a_second_start(
    cluster: SimulatedCluster,
) -> None:
    cluster.outcome = DriverOutcome(exit_code=0)
    start(cluster, SECOND)
    cluster.finish()
    assert status_of(cluster).cause is None


def test_the_next_attempt_has_its_own_start(cluster: SimulatedCluster) -> None:
    cluster.finish(1)
    cluster.run_next()
    start(cluster, SECOND)
    assert status_of(cluster, "corpus-2").end_time is None
    assert status_of(cluster, "corpus-2").job_start_time != status_of(cluster).job_start_time
