"""Repeated work that the driver reports at its end: recorded in the status and counted once."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.work_lost import WorkLost
from strandline_api.status.usage.work import LostWork
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.plan import Count


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running."""
    return SimulatedCluster.running()


def end(cluster: SimulatedCluster, outcome: DriverOutcome) -> list[Count]:
    """End the driver, and return the counts of its lost work."""
    cluster.outcome = outcome
    cluster.settle()
    cluster.finish_teardown()
    cluster.settle()
    return [count for count in cluster.counts if count.name == "work_lost_seconds"]


def test_lost_work_is_recorded_in_the_attempt_and_counted_by_cause(
    cluster: SimulatedCluster,
) -> None:
    lost = WorkLost(node=12.5, stop=3.0)
    outcome = DriverOutcome(exit_code=1, work_seconds=100.0, work_lost=lost)
    assert end(cluster, outcome) == [
        Count("work_lost_seconds", "node", 12.5),
        Count("work_lost_seconds", "stop", 3.0),
    ]
    status = next(status for _, status in cluster.attempts.values())
    assert status.outcome is not None
    assert status.outcome.work_lost is not None
    assert (status.outcome.work_seconds, status.outcome.work_lost.node) == (100.0, 12.5)


def test_the_pipeline_sums_the_lost_work_of_its_run(cluster: SimulatedCluster) -> None:
    first = DriverOutcome(exit_code=1, work_seconds=100.0, work_lost=WorkLost(node=12.5))
    end(cluster, first)
    assert cluster.status.work is not None
    assert cluster.status.work.to_json() == {
        "seconds": 100.0,
        "lost": {"node": 12.5, "memory": 0.0, "kill": 0.0, "timeout": 0.0, "stop": 0.0},
    }
    work = cluster.status.work.add(None, None).add(7.5, LostWork(node=2.5, stop=1.0))
    assert work.lost is not None
    assert (work.seconds, work.lost.node, work.lost.stop) == (107.5, 15.0, 1.0)


def test_a_driver_without_a_report_has_no_lost_work(cluster: SimulatedCluster) -> None:
    assert end(cluster, DriverOutcome(exit_code=1)) == []
    status = next(status for _, status in cluster.attempts.values())
    assert status.outcome is not None
    assert (status.outcome.work_seconds, status.outcome.work_lost) == (None, None)
    assert cluster.status.work is None


def test_unknown_causes_get_an_empty_label() -> None:
    numbers = Numbers()
    numbers.note(Count("work_lost_seconds", "node", 2.0))
    numbers.note(Count("work_lost_seconds", "corpus-3", 2.0))
    found = {
        sample.labels["cause"]
        for family in numbers.registry.collect()
        if family.name == "strandline_work_lost_seconds"
        for sample in family.samples
        if sample.name.endswith("_total")
    }
    assert found == {"node", ""}
