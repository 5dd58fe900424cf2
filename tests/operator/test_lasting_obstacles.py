"""Temporary obstacles cause an event only if they last for some time."""

from __future__ import annotations

from typing import Any

from simulated_cluster import SimulatedCluster
from strandline_api.status.event_reasons import EventReason
from strandline_operator.model.objects import Meta
from strandline_operator.reconcile.enact import render_event

NO_NODE: dict[str, Any] = {
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 didn't match Pod's node affinity/selector.",
        }
    ]
}


def list_warnings(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in cluster.events if event.is_warning]


def name_all(cluster: SimulatedCluster) -> set[str]:
    """Return the names of the events on the server."""
    meta = Meta("corpus", "default", "uid-p")
    return {
        render_event(event, meta, "1/1", cluster.time)["metadata"]["name"]
        for event in cluster.events
        if event.is_warning
    }


def test_an_unplaced_pod_causes_one_event_after_five_minutes() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    cluster.set_pod("head", **NO_NODE)
    cluster.advance(250)
    assert list_warnings(cluster) == []
    for _ in range(20):
        cluster.advance(60)
    told = list_warnings(cluster)
    assert told
    assert {reason for reason, _ in told} == {EventReason.BLOCKED}
    assert "didn't match Pod's node affinity" in told[0][1]
    assert len(told) < 15
    assert len(name_all(cluster)) == 1


def test_an_invalid_spec_causes_one_event_after_a_minute() -> None:
    cluster = SimulatedCluster()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    cluster.advance(30)
    assert list_warnings(cluster) == []
    cluster.advance(31)
    cluster.advance(60)
    told = list_warnings(cluster)
    assert {reason for reason, _ in told} == {EventReason.RUN_FAILED}
    assert "spec.sink.use" in told[0][1]
    assert len(name_all(cluster)) == 1


def test_a_spec_fixed_within_a_minute_causes_no_event() -> None:
    cluster = SimulatedCluster()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    cluster.advance(30)
    cluster.edit(sink={"use": "jsonl"})
    cluster.settle()
    cluster.advance(600)
    assert EventReason.RUN_FAILED not in {reason for reason, _ in list_warnings(cluster)}


def test_a_running_attempt_is_not_reported_as_failed() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.edit(sink={"use": "NO"})
    cluster.settle()
    cluster.advance(120)
    assert EventReason.RUN_FAILED not in {reason for reason, _ in list_warnings(cluster)}
