"""The requests to the API server during a whole attempt, counted by kind.

Requests to drivers and streams are not counted.
"""

from __future__ import annotations

from collections import Counter

import pytest

from fake_api import Call
from played_operator import Scenario
from strandline_operator.cluster.errors import ApiError, NotFound, Unavailable
from strandline_operator.model.plan import Resource


def count_requests(scenario: Scenario) -> Counter[str]:
    calls = (call for call in scenario.api.calls if call.verb != "pull")
    return Counter(f"{call.verb} {call.resource}" for call in calls)


def test_a_successful_attempt_makes_exactly_these_requests() -> None:
    scenario = Scenario("s-success")
    scenario.run()
    assert count_requests(scenario) == {
        "status curationpipelines.strandline.dev": 6,
        "status curationattempts.strandline.dev": 6,
        "create events": 4,
        # The claim is never bound, so passes read the claim again, at most every five seconds.
        "get persistentvolumeclaims": 6,
        "get configmaps": 2,
        # Read before the attempt is frozen, which is irreversible.
        "list rayjobs.ray.io": 1,
        "list rayclusters.ray.io": 1,
        "list pods": 1,
        # The namespace's rules for containers, read once a minute for all of its pipelines.
        "list resourcequotas": 1,
        "list limitranges": 1,
        # Without a watch, a node is read when its pod appears and when the pod disappears.
        "get nodes": 2,
        # The operator adds and removes its finalizer.
        "patch curationpipelines.strandline.dev": 2,
        "create persistentvolumeclaims": 1,
        "create curationattempts.strandline.dev": 1,
        "create configmaps": 1,
        "create rayjobs.ray.io": 1,
        "log pods": 1,
        # Passes read events once, because the attempt's workers wait for a node.
        "events events": 1,
        "delete rayjobs.ray.io": 1,
    }


@pytest.mark.parametrize(
    ("recording", "reads"),
    [
        ("a-success", 3),
        ("d3-head-container-oom-kernel", 4),
        # The submitter runs for two more minutes without new output.
        ("f2-head-preempted", 10),
    ],
)
def test_a_log_without_an_outcome_is_read_a_limited_number_of_times(
    recording: str, reads: int
) -> None:
    scenario = Scenario(recording)
    scenario.run()
    assert count_requests(scenario)["log pods"] == reads


@pytest.mark.parametrize(
    ("error", "reads"),
    [
        # The log is gone with the node. Passes read once while the submitter runs and once at its
        # end.
        (NotFound(404, "NotFound", 'nodes "node-1" not found'), 2),
        (Unavailable(500, "InternalError", "dial tcp: connection refused"), 2),
    ],
)
def test_an_unreadable_log_costs_at_most_two_requests(error: ApiError, reads: int) -> None:
    scenario = Scenario("s-success")

    def refuse(call: Call) -> None:
        if (call.verb, call.resource) == ("log", Resource.POD):
            raise error

    scenario.api.before.append(refuse)
    scenario.run()
    assert count_requests(scenario)["log pods"] == reads
    assert scenario.is_final()
