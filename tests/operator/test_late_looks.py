"""A completed run stays complete, however late the operator notices the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.pipeline_status import Progress
from strandline_operator.model.plan import Resource

HOUR = 3600.0
Complete = Callable[[SimulatedCluster], None]


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is in its first second."""
    cluster = SimulatedCluster.running()
    cluster.progress = Progress(total=9, finished=1, time=cluster.time)
    cluster.settle()
    return cluster


def status_of(cluster: SimulatedCluster) -> Any:
    return cluster.attempts["corpus-1"][1]


def complete_by_rayjob(cluster: SimulatedCluster) -> None:
    """Report the end of the job with its time, as KubeRay does."""
    ended = format_time(cluster.time)
    info = {"startTime": format_time(1_000_000.0), "endTime": ended}
    cluster.end_rayjob(rayJobInfo=info, endTime=format_time(cluster.time + 3.0))


def complete_by_pod(cluster: SimulatedCluster) -> None:
    """Report success from the driver, and end its container at a recorded time."""
    cluster.outcome = DriverOutcome(exit_code=0)
    end = {"exitCode": 0, "reason": "Completed", "finishedAt": format_time(cluster.time)}
    container = {"name": "ray-head", "state": {"terminated": end}}
    cluster.set_pod("head", phase="Succeeded", containerStatuses=[container])


def complete_undated(cluster: SimulatedCluster) -> None:
    """Report success from the driver, without the time of the end."""
    cluster.outcome = DriverOutcome(exit_code=0)


DATED: list[Complete] = [complete_by_rayjob, complete_by_pod]
COMPLETE: list[Complete] = [*DATED, complete_undated]


def look(cluster: SimulatedCluster, seconds: float) -> None:
    """Advance the time as if the operator had been stopped, and finish the teardown."""
    cluster.progress = None
    cluster.advance(seconds)
    cluster.finish_teardown()


def check_complete(cluster: SimulatedCluster) -> None:
    assert status_of(cluster).cause is None, status_of(cluster).message
    assert status_of(cluster).message == "completed"
    assert status_of(cluster).evidence == ()
    assert cluster.status.phase is PipelinePhase.SUCCEEDED
    cluster.edit(suspend=False)
    cluster.advance(HOUR)
    assert list(cluster.attempts) == ["corpus-1"]


@pytest.mark.parametrize("late", [2.0, 40 * 60.0])
@pytest.mark.parametrize("complete", COMPLETE)
@pytest.mark.parametrize("deadline", ["run", "attempt"])
def test_a_run_completed_before_its_deadline_succeeds_even_if_seen_late(
    cluster: SimulatedCluster, deadline: str, complete: Complete, late: float
) -> None:
    cluster.edit(deadlines={deadline: "1h"})
    cluster.settle()
    cluster.time += HOUR - 1.0
    complete(cluster)
    look(cluster, 1.0 + late)
    check_complete(cluster)


@pytest.mark.parametrize("complete", DATED)
@pytest.mark.parametrize("deadline", ["run", "attempt"])
def test_a_run_completed_after_its_deadline_exceeds_the_deadline(
    cluster: SimulatedCluster, deadline: str, complete: Complete
) -> None:
    cluster.edit(deadlines={deadline: "1h"})
    cluster.settle()
    cluster.time += HOUR + 60.0
    complete(cluster)
    look(cluster, 60.0)
    assert status_of(cluster).cause is Cause.DEADLINE_EXCEEDED


@pytest.mark.parametrize("complete", DATED)
@pytest.mark.parametrize("deadline", ["run", "attempt"])
def test_a_completion_that_is_reported_after_the_verdict_still_counts(
    cluster: SimulatedCluster, deadline: str, complete: Complete
) -> None:
    cluster.edit(deadlines={deadline: "1h"})
    cluster.settle()
    cluster.time += HOUR - 1.0
    driver = {key: dict(body) for key, body in cluster.objects.items()}
    complete(cluster)
    reported, cluster.objects = cluster.objects, driver
    outcome, cluster.outcome = cluster.outcome, None
    cluster.progress = None
    cluster.advance(2.0)
    assert status_of(cluster).cause is Cause.DEADLINE_EXCEEDED
    cluster.objects = {**cluster.objects, **reported}
    cluster.outcome = outcome
    look(cluster, 1.0)
    check_complete(cluster)


@pytest.mark.parametrize("late", [0.0, 2.0, 40 * 60.0])
@pytest.mark.parametrize("complete", COMPLETE)
def test_a_suspension_seen_with_the_completion_changes_nothing(
    cluster: SimulatedCluster, complete: Complete, late: float
) -> None:
    complete(cluster)
    cluster.edit(suspend=True)
    look(cluster, late)
    check_complete(cluster)


@pytest.mark.parametrize("complete", COMPLETE)
def test_a_cancel_seen_with_the_completion_changes_nothing(
    cluster: SimulatedCluster, complete: Complete
) -> None:
    complete(cluster)
    cluster.annotate("cancel", "too late")
    look(cluster, 2.0)
    check_complete(cluster)
    cluster.edit(runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 2


@pytest.mark.parametrize("complete", COMPLETE)
def test_a_loss_seen_with_the_completion_changes_nothing(
    cluster: SimulatedCluster, complete: Complete
) -> None:
    cluster.edit(onWorkerLoss={"disruption": "Recreate"})
    cluster.settle()
    complete(cluster)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.set_pod("cpu", phase="Failed", conditions=[target])
    look(cluster, 2.0)
    check_complete(cluster)


def test_a_driver_that_failed_before_the_runs_deadline_keeps_its_cause(
    cluster: SimulatedCluster,
) -> None:
    cluster.edit(deadlines={"run": "1h"})
    cluster.settle()
    cluster.time += HOUR - 1.0
    ended = {"endTime": format_time(cluster.time)}
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="exit code 3", **ended)
    look(cluster, 2.0)
    assert status_of(cluster).cause is Cause.SOURCES_FAILED


def test_pods_deleted_after_a_completion_change_nothing(cluster: SimulatedCluster) -> None:
    complete_by_rayjob(cluster)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.set_pod("", phase="Failed", conditions=[target])
    for kind in (Resource.POD, Resource.RAYCLUSTER):
        assert cluster.list_of(kind)
    look(cluster, 2.0)
    check_complete(cluster)
