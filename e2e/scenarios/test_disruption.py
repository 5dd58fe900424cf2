"""Pods are taken away: by preemption, eviction, deletion. The run finishes all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proving_ground.disturbances import (
    LOW,
    ask_for_slot,
    evict,
    offer_slot,
    preempt,
    yield_slot,
)
from proving_ground.figures import Figures
from proving_ground.ground import Ground
from proving_ground.kube import Json, Kube
from proving_ground.pipelines import render_pipeline
from proving_ground.records import keep, take_record
from proving_ground.story import Story

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
Disturb = Callable[[Kube, str], None]


def _begin(ground: Ground, role: str) -> Story:
    """A pipeline whose head or worker holds the slot, once it has finished some sources."""
    manifest = render_pipeline(
        "corpus", ledger=ground.ledger.claim, output=ground.output.claim, count=COUNT, stages=[WORK]
    )
    ray = manifest["spec"]["ray"]
    node = ray["head"] if role == "head" else ray["workerGroups"][0]
    container = node["podTemplate"]["spec"]["containers"][0]
    slot = ask_for_slot(container["name"])["spec"]["containers"][0]["resources"]
    container["resources"] = {
        kind: container["resources"].get(kind, {}) | slot[kind] for kind in ("requests", "limits")
    }
    ray["priorityClassName"] = LOW
    story = Story(ground.kube, "corpus")
    story.begin(manifest)
    story.wait_for_finished(EARLY, 180)
    return story


def test_a_preempted_worker(ground: Ground, figures: Figures) -> None:
    offer_slot(ground.kube)
    story = _begin(ground, "worker")
    preempt(ground)
    story.wait_until("an incident", lambda: story.attempt(1)["status"].get("incidents"), 60)
    yield_slot(ground)
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert [one["spec"]["number"] for one in story.attempts] == [1]
    assert story.status["incidents"] == 1
    figures.note_absorbed("a worker pod is preempted", ground)


def test_a_preempted_head(ground: Ground, figures: Figures, records: tuple[Path, bool]) -> None:
    offer_slot(ground.kube)
    story = _begin(ground, "head")
    preempt(ground)
    assert story.wait_for_cause(1, 120) == "Preempted", story.tell()
    page = take_record(story, "The head is preempted", __doc__ or "")
    yield_slot(ground)
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert story.status["retries"]["retries"] == 0
    assert story.status["retries"]["disruptions"] == 1
    _check_resumed(ground, story)
    figures.note("the head pod is preempted", ground, story)
    keep(records[0], "head-preempted", page, is_update=records[1])


def _delete(kube: Kube, pod: str) -> None:
    kube.delete("pod", pod)


@pytest.mark.extended
@pytest.mark.parametrize(("disturb", "cause"), [(evict, "Evicted"), (_delete, "Interrupted")])
def test_a_head_taken_by_hand(
    ground: Ground, figures: Figures, disturb: Disturb, cause: str
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK])
    story.wait_for_finished(EARLY, 180)
    disturb(ground.kube, story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_cause(1, 120) == cause, story.tell()
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    _check_resumed(ground, story)
    figures.note(f"the head pod: {cause}", ground, story)


@pytest.mark.extended
@pytest.mark.parametrize("disturb", [evict, _delete])
def test_a_worker_taken_by_hand(ground: Ground, disturb: Disturb) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK])
    story.wait_for_finished(EARLY, 180)
    disturb(ground.kube, story.pods("worker")[0]["metadata"]["name"])
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert story.status["progress"]["finished"] == COUNT


def test_a_deleted_head_drains(ground: Ground, figures: Figures) -> None:
    """What was under way is flushed and `latest` published before the pod goes."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK])
    story.wait_for_finished(EARLY, 180)
    head = story.pods("head")[0]["metadata"]["name"]
    ground.kube.delete("pod", head)
    assert story.wait_for_cause(1, 120) == "Interrupted", story.tell()
    first = story.attempt(1)["status"]
    assert first["outcome"]["exitCode"] == 75
    # All that was opened was finished and kept: nothing is opened again.
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert ground.opened_again(1, 2) == set()
    assert story.status["attempts"][0]["finished"] == len(
        {key for number, key in ground.output.opened if number == 1}
    )
    figures.note("the head pod is deleted, and drains", ground, story)


def _check_resumed(ground: Ground, story: Story) -> None:
    """The second attempt went on where the first had come to."""
    finished = story.status["attempts"][0]["finished"]
    assert finished >= EARLY
    assert len(ground.opened_again(1, 2)) <= COUNT - finished
    assert story.status["progress"]["finished"] == COUNT
