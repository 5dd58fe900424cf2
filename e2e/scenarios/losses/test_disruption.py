"""Pods are lost to preemption, eviction, or deletion, and the run finishes anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proving_ground.cluster.kube import Json, Kube
from proving_ground.disturbances.pods import (
    LOW,
    ask_for_slot,
    evict,
    offer_slot,
    preempt,
    yield_slot,
)
from proving_ground.ground import Ground, Resumption
from proving_ground.pipelines import render_pipeline
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records
from proving_ground.story import Story

COUNT, EARLY = 60, 8
# More than Ray's own logs and session files need.
DISK_MEBIBYTES = 500
# Enough sources to outlast the kubelet's measurement of volumes, which takes place once a minute.
LONG = 240
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
Disturb = Callable[[Kube, str], None]


@pytest.fixture
def slot(ground: Ground) -> Iterator[None]:
    """Offer a slot that only one pod of the cluster can have."""
    with offer_slot(ground.kube):
        yield


def _begin(ground: Ground, role: str) -> Story:
    """Start a pipeline whose head or worker holds the slot, and wait for finished sources."""
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
    story.wait_for_finished(EARLY)
    return story


@pytest.mark.xdist_group("slots")
@pytest.mark.spot
@pytest.mark.usefixtures("slot")
def test_a_preempted_worker(ground: Ground, figures: Figures, records: Records) -> None:
    story = _begin(ground, "worker")
    preempt(ground)
    story.wait_until("an incident", lambda: story.attempt(1)["status"].get("incidents"), 60)
    yield_slot(ground)
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.status["incidents"] == 1
    records.show(ground, story, _lost("preempted", "Preempted"))
    figures.note_absorbed("a worker pod is preempted", ground)


@pytest.mark.xdist_group("slots")
@pytest.mark.spot
@pytest.mark.usefixtures("slot")
def test_a_preempted_head(ground: Ground, figures: Figures, records: Records) -> None:
    story = _begin(ground, "head")
    preempt(ground)
    assert story.wait_for_cause(1, 120) == "Preempted", story.describe()
    records.take(ground, story, "head-preempted", "The head is preempted")
    # The retry counts against the disruption budget.
    assert "disruption 1 of 100" in ground.kube.call("get", "events")
    yield_slot(ground)
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["retries"]["retries"] == 0
    figures.note("the head pod is preempted", story, _check_resumed(ground, story))


def _lost(how: str, cause: str) -> Expectation:
    """Return the output that is expected after a run that lost a worker."""
    title = f"A worker is {how}, and the attempt goes on"
    metric = f'strandline_workers_lost_total{{cause="{cause}"}}'
    return Expectation(f"worker-{how}", title, "WorkerLost", "WorkerLost", metric)


def _delete(kube: Kube, pod: str) -> None:
    kube.delete("pod", pod)


def _delete_by_force(kube: Kube, pod: str) -> None:
    kube.delete("pod", pod, "--grace-period=0", "--force")


@pytest.mark.extended
@pytest.mark.parametrize(
    ("disturb", "how", "cause"),
    [
        (evict, "evicted", "Evicted"),
        (_delete, "deleted by hand", "Interrupted"),
        (_delete_by_force, "deleted by force", "Interrupted"),
    ],
)
def test_a_head_taken_by_hand(
    ground: Ground, figures: Figures, records: Records, disturb: Disturb, how: str, cause: str
) -> None:
    story = ground.begin("corpus", count=LONG, stages=[WORK], finished=EARLY)
    disturb(ground.kube, story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_cause(1, 120) == cause, story.describe()
    if cause == "Evicted":
        records.take(ground, story, "head-evicted", "The head is evicted")
    assert story.wait_for_end()["status"] == "True", story.describe()
    figures.note(f"the head pod is {how}", story, _check_resumed(ground, story, LONG))


@pytest.mark.extended
def test_a_head_that_has_filled_its_disk(ground: Ground, figures: Figures) -> None:
    """The kubelet evicts a pod that has written more than its limit of ephemeral storage."""
    ray = ground.render("x")["spec"]["ray"]
    container = ray["head"]["podTemplate"]["spec"]["containers"][0]
    container["resources"]["limits"]["ephemeral-storage"] = f"{DISK_MEBIBYTES}Mi"
    story = ground.begin("corpus", count=LONG, stages=[WORK], finished=EARLY, spec={"ray": ray})
    (head,) = story.pods("head", 1)
    fill = ("dd", "if=/dev/zero", "of=/tmp/filler", "bs=1M", f"count={2 * DISK_MEBIBYTES}")
    with ground.held():
        ground.kube.call("exec", head["metadata"]["name"], "-c", container["name"], "--", *fill)
        assert story.wait_for_cause(1, 240) == "Evicted", story.describe()
    evidence = story.attempt(1)["status"]["evidence"]
    reasons = [record.get("details", {}).get("reason") for record in evidence]
    assert "PodOverLimit" in reasons, evidence
    assert story.wait_for_end()["status"] == "True", story.describe()
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the head has filled its disk", story, past)


@pytest.mark.extended
@pytest.mark.parametrize(("disturb", "how"), [(evict, "evicted"), (_delete, "deleted by hand")])
def test_a_worker_taken_by_hand(
    ground: Ground, figures: Figures, records: Records, disturb: Disturb, how: str
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    disturb(ground.kube, story.pods("worker")[0]["metadata"]["name"])
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    if disturb is evict:
        records.show(ground, story, _lost("evicted", "Evicted"))
    figures.note_absorbed(f"a worker pod is {how}", ground)


def test_a_deleted_head_drains(ground: Ground, figures: Figures, records: Records) -> None:
    """The driver flushes finished sources and publishes `latest` before the pod ends."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    head = story.pods("head")[0]["metadata"]["name"]
    ground.kube.delete("pod", head)
    assert story.wait_for_cause(1, 120) == "Interrupted", story.describe()
    first = story.attempt(1)["status"]
    assert first["outcome"]["exitCode"] == 75
    assert first["latest"].startswith("0001/")
    records.take(ground, story, "head-deleted", "The head is deleted, and drains")
    assert story.wait_for_end()["status"] == "True", story.describe()
    past = _check_resumed(ground, story)
    # The ledger has exactly the sources that the driver reported as finished, so the driver
    # finished no source after its report.
    assert len(past.finished) == first["outcome"]["sources"]["finished"]
    figures.note("the head pod is deleted, and drains", story, past)


def _check_resumed(ground: Ground, story: Story, count: int = COUNT) -> Resumption:
    """Check that the second attempt resumed where the first had stopped."""
    past = ground.look_back(story)
    assert len(past.finished) >= EARLY
    assert past.finished.isdisjoint(past.second)
    assert story.status["progress"]["text"] == f"{count}/{count}"
    return past
