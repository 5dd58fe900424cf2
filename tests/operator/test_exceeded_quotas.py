"""If a quota blocks an attempt's pods, the run waits for free quota."""

from __future__ import annotations

import pytest

from simulated_cluster import SimulatedCluster
from test_delays import QUOTA


def exceed_quota(cluster: SimulatedCluster) -> None:
    """Start the next due attempt, whose pods KubeRay may not make."""
    cluster.time = max(cluster.time, cluster.status.next_attempt_time or cluster.time)
    cluster.settle()
    cluster.bind_claim()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    cluster.set_pod("", phase="Pending")
    cluster.fail_replicas(QUOTA)
    cluster.settle()
    cluster.advance(12)
    cluster.finish_teardown()


def test_the_wait_for_a_quota_may_take_any_number_of_attempts() -> None:
    cluster = SimulatedCluster()
    limits = {"maxRetries": 0, "disruptions": {"maxRetries": 1}, "maxAttempts": 2}
    cluster.edit(retry={"jitter": "none", **limits})
    pauses = []
    for number in range(1, 6):
        exceed_quota(cluster)
        name = f"corpus-{number}"
        assert cluster.attempts[name][1].cause == "QuotaExceeded"
        due = cluster.status.next_attempt_time
        assert due is not None
        pauses.append(due - (cluster.attempts[name][1].end_time or 0.0))
        assert f"wait {number} for the quota, retry at" in cluster.status.state
    assert pauses == pytest.approx([60, 120, 240, 480, 960], abs=1)
    counts = cluster.status.retries
    assert counts is not None
    assert (counts.attempts, counts.retries, counts.disruptions) == (0, 0, 0)
    cluster.run_next()
    cluster.finish()
    counts = cluster.status.retries
    assert counts is not None
    assert (counts.attempts, counts.waits, cluster.status.phase) == (1, None, "Succeeded")


def test_a_wait_for_a_quota_on_pods_ends_with_the_deadline_of_the_run() -> None:
    cluster = SimulatedCluster()
    cluster.edit(retry={"jitter": "none"}, deadlines={"run": "100s"})
    exceed_quota(cluster)
    exceed_quota(cluster)
    assert len(cluster.attempts) == 2
    assert cluster.status.next_attempt_time is None
    assert "after the run's deadline" in cluster.status.state
