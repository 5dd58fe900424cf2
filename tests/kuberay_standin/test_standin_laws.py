"""Laws of the stand-in, on recordings."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from kuberay_standin.core import step
from kuberay_standin.scene import Action, Draw, Scene
from kuberay_standin.shell import loop
from recordings import read_recording
from standin_events import list_recorded
from standin_replay import World, replay

SHORT = ("s-k-exit-64", "s-k-head-deleted-before-ready", "s-k-rayjob-deleted", "s-k-head-deleted")


@settings(max_examples=scale_examples(15))
@given(name=st.sampled_from(SHORT), chances=st.lists(st.booleans(), max_size=40))
def test_failed_actions_are_repeated_in_the_next_turn(name: str, chances: list[bool]) -> None:
    recording = read_recording(name)
    coming = iter(chances)
    world = World(recording, lambda: next(coming, True))
    world.play()
    done = Counter(event.words for event in world.events)
    assert done == Counter(event.words for event in list_recorded(recording))


@pytest.mark.parametrize("name", SHORT)
def test_the_core_does_not_modify_its_input(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def guard(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
        before = copy.deepcopy(scene)
        actions = step(scene, now, draw)
        assert scene == before
        return actions

    monkeypatch.setattr(loop, "step", guard)
    World(read_recording(name)).play()


def test_ray_is_stopped_before_a_deleted_rayjob_is_removed() -> None:
    world = replay("s-k-rayjob-deleted")
    assert len(world.stopped) == 1
    assert world.events[-1].words == "RayJob let go"


def test_without_a_running_job_nothing_is_stopped() -> None:
    assert [] == replay("i-unschedulable").stopped


# Watches of several kinds blur short states; the observed states come in this order.
@pytest.mark.parametrize(
    "name",
    [
        "a-success",
        "c2-worker-container-oom-kernel",
        "d3-head-container-oom-kernel",
        "f-worker-preempted",
        "f2-head-preempted",
        "g6-node-taint",
        "h-image-pull",
        "s-k-head-deleted",
        "s-k-head-deleted-before-ready",
        "s-k-success",
    ],
)
@pytest.mark.parametrize(
    "field", ["state", "availableWorkerReplicas", "readyWorkerReplicas", "head", "provisioned"]
)
def test_the_raycluster_goes_through_the_recorded_states(name: str, field: str) -> None:
    recorded = [
        step.status
        for step in read_recording(name).steps
        if step.kind == "RayCluster" and step.status and not step.is_gone
    ]
    expected = list_changes(pick(status, field) for status in recorded)
    actual = list_changes(pick(status, field) for status in replay(name).cluster_statuses)
    assert is_subsequence(expected, actual), f"{expected} is not in {actual}"
    if field in {"state", "provisioned"}:
        assert expected == actual


def pick(status: dict[str, Any], field: str) -> Any:
    conditions = {condition["type"]: condition["reason"] for condition in status["conditions"]}
    if field == "head":
        return conditions["HeadPodReady"]
    return conditions["RayClusterProvisioned"] if field == "provisioned" else status.get(field)


def list_changes(values: Iterator[Any]) -> list[Any]:
    return [value for value, _ in groupby(values)]


def is_subsequence(few: Sequence[Any], many: Sequence[Any]) -> bool:
    left = iter(many)
    return all(one in left for one in few)
