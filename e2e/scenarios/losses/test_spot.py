"""Spot nodes are reclaimed with and without notice, drained, and unavailable."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.disturbances.pods import ask_for_slot, evict, offer_slot
from proving_ground.disturbances.spot_nodes import (
    announce_end,
    cordon,
    find_node,
    label_as_spot,
    shut_down,
)
from proving_ground.ground import Ground
from proving_ground.installation.chart import Installation
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = [pytest.mark.extended, pytest.mark.spot]

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
START_SECONDS, DRY_SECONDS = 30, 60
# A task longer than the default termination grace period of 30 seconds.
LONG_TASK: Json = {"use": "tide:Work", "with": {"seconds": 45}}
LONG_GRACE = 120


@pytest.fixture
def spot_node(ground: Ground) -> Iterator[str]:
    """Provide a spot node."""
    with label_as_spot(ground.kube) as node:
        yield node


@pytest.fixture
def impatient(installation: Installation) -> Iterator[None]:
    """Set a short start timeout in the operator, for one test."""
    settings = installation.values["settings"]
    assert isinstance(settings, dict)
    installation.upgrade(settings=settings | {"preRunning": f"{START_SECONDS}s"})
    yield
    installation.upgrade()


def _find_reasons(story: Story, number: int = 1) -> set[str]:
    evidence = story.attempt(number)["status"].get("evidence", [])
    return {str(record.get("details", {}).get("reason", "")) for record in evidence}


def _check_unpaid(story: Story, count: int = COUNT) -> None:
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["progress"]["text"] == f"{count}/{count}"
    assert story.status["retries"]["retries"] == 0


def test_a_worker_that_is_evicted_in_time_loses_no_work(ground: Ground, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    evict(ground.kube, story.pods("worker")[0]["metadata"]["name"])
    _check_unpaid(story)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    outcome = story.attempt(1)["status"]["outcome"]
    assert (outcome.get("workLost") or {}).get("node", 0) == 0, outcome
    figures.note_absorbed("a worker pod is evicted with notice", ground)


def test_a_worker_with_a_longer_grace_ends_a_long_task(ground: Ground, figures: Figures) -> None:
    count, ray = 4, ground.render("x")["spec"]["ray"]
    template = ray["workerGroups"][0]["podTemplate"]["spec"]
    template["terminationGracePeriodSeconds"] = LONG_GRACE
    story = ground.begin("corpus", count=count, stages=[LONG_TASK], finished=1, spec={"ray": ray})
    name = story.pods("worker")[0]["metadata"]["name"]
    # A source has just finished, so the worker has just started its next task.
    evict(ground.kube, name)
    (leaving,) = [pod for pod in story.pods("worker") if pod["metadata"]["name"] == name]
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == LONG_GRACE
    _check_unpaid(story, count)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    outcome = story.attempt(1)["status"]["outcome"]
    assert (outcome.get("workLost") or {}).get("node", 0) == 0, outcome
    figures.note_absorbed("a worker pod with a grace of 120 s is evicted in a task of 45 s", ground)


@pytest.mark.alone
def test_a_head_on_a_spot_node_that_shuts_down(
    ground: Ground, figures: Figures, spot_node: str
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    shut_down(ground.kube, story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_cause(1, 120) == "Preempted", story.describe()
    assert "SpotReclaimed" in _find_reasons(story), story.describe()
    assert f"spot node {spot_node} was reclaimed" in story.attempt(1)["status"]["message"]
    _check_unpaid(story)
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the head's spot node shuts down", story, past)


@pytest.mark.alone
def test_a_node_whose_end_is_announced(ground: Ground, figures: Figures, spot_node: str) -> None:
    """The taint alone makes drivers drain; the wait for another node costs the run no retry."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    with announce_end(ground.kube, spot_node):
        cause = story.wait_for_cause(1, 120)
        story.wait_until("a second attempt", lambda: len(story.attempts) > 1, 120)
    assert cause == "Preempted", story.describe()
    assert story.attempt(1)["status"]["outcome"]["exitCode"] == 75
    _check_unpaid(story)
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the end of the head's spot node is announced", story, past)


@pytest.mark.alone
def test_a_drain_that_a_budget_holds_up_is_reported(ground: Ground) -> None:
    ray = ground.render("x")["spec"]["ray"]
    ray["voluntaryDisruptions"] = {"podDisruptionBudget": True}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY, spec={"ray": ray})
    with cordon(ground.kube, find_node(ground.kube)):
        story.wait_until(
            "the drain is told",
            lambda: story.condition("Succeeded").get("reason") == "DrainHeldBack",
            60,
        )
    _check_unpaid(story)


@pytest.mark.alone
@pytest.mark.usefixtures("impatient")
def test_a_pool_without_room_is_waited_for(ground: Ground, figures: Figures) -> None:
    """The wait may exceed the start timeout if the scheduler reports the only node as full."""
    manifest = ground.render("corpus")
    spec = manifest["spec"]
    spec["source"]["with"]["count"] = COUNT
    spec["deadlines"] = {}
    container = spec["ray"]["workerGroups"][0]["podTemplate"]["spec"]["containers"][0]
    slot = ask_for_slot(container["name"])["spec"]["containers"][0]["resources"]
    container["resources"] = {
        kind: container["resources"].get(kind, {}) | slot[kind] for kind in ("requests", "limits")
    }
    story = Story(ground.kube, "corpus")
    story.begin(manifest)
    story.wait_until(
        "it waits for room", lambda: story.condition("Succeeded").get("reason") == "NoRoom", 120
    )
    time.sleep(DRY_SECONDS)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    with offer_slot(ground.kube):
        _check_unpaid(story)
    figures.note_end("a pool has no room for a minute", "Succeeded")
