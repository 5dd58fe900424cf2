"""A queue that can never admit an attempt is reported, because Kueue only logs this."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_operator.model.plan import Resource


def wait_in_queue(*groups: str, **changes: Any) -> SimulatedCluster:
    """Return a pipeline whose RayJob starts suspended, as after Kueue's webhook."""
    cluster = SimulatedCluster()
    named = [{"name": name} for name in groups]
    cluster.edit(ray={"queueName": "nightly", "workerGroups": named})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"].update(suspend=True, **changes)
    cluster.advance(10.0)
    return cluster


def read_state(cluster: SimulatedCluster) -> tuple[str, str]:
    condition = cluster.status.find_condition("Succeeded")
    assert condition is not None
    return condition.reason, condition.message


SIX = ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize(
    ("groups", "changes", "words"),
    [
        (
            [*SIX, "g"],
            {},
            "at most 8 kinds of pods, but the attempt has 9: head, a, b, c, d, e, f, g",
        ),
        (["submitter"], {}, "a worker group must not be named 'submitter'"),
        (["a"], {"managedBy": "kueue.x-k8s.io/multikueue"}, "MultiKueue sends RayJob corpus-1"),
    ],
)
def test_an_unfit_queue_is_named(groups: list[str], changes: dict[str, Any], words: str) -> None:
    cluster = wait_in_queue(*groups, **changes)
    reason, message = read_state(cluster)
    assert reason == "QueueUnfit"
    assert words in message
    assert cluster.attempts["corpus-1"][1].phase == "Queued"
    assert cluster.attempts["corpus-1"][1].end_time is None


@pytest.mark.parametrize(
    ("groups", "changes"),
    [
        (SIX, {}),
        # A submitter that runs in the head pod needs no pod set of its own.
        ([*SIX, "g"], {"submissionMode": "SidecarMode"}),
        (["submitter"], {"submissionMode": "SidecarMode"}),
        (["a"], {"managedBy": "ray.io/kuberay-operator"}),
    ],
)
def test_any_other_queue_is_awaited(groups: list[str], changes: dict[str, Any]) -> None:
    assert read_state(wait_in_queue(*groups, **changes))[0] == "Queued"


def test_an_admitted_rayjob_is_not_reported_as_unfit() -> None:
    cluster = wait_in_queue(*SIX, "g")
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = False
    cluster.advance(10.0)
    assert read_state(cluster)[0] == "Starting"
