"""Users and administrators intervene in a run: suspend, cancel, delete, and kill."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records
from proving_ground.story import PIPELINE, Story

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
ATTEMPT_SECONDS, TTL_SECONDS = 90, 30
SUSPENDED = Expectation(
    "suspended",
    "The pipeline is suspended",
    "Suspended",
    "Suspended",
    'strandline_pipelines{reason="Suspended"}',
)
DELETED = Expectation(
    "deleted",
    "The pipeline is deleted in mid-run",
    "Deleting",
    "RunStarted",
    'strandline_pipelines{reason="Deleting"}',
)
KILLED = Expectation(
    "operator-killed",
    "The operator is killed in mid-run, and the run goes on",
    "Completed",
    "RunSucceeded",
    'strandline_attempts_total{cause="Completed"}',
)
pytestmark = pytest.mark.extended


@contextmanager
def _is_held(story: Story) -> Iterator[None]:
    """Keep the head's pod from being removed, so that the test can inspect it."""
    head = story.pods("head")[0]["metadata"]["name"]
    story.kube.patch("pods", head, {"metadata": {"finalizers": ["example.com/held"]}})
    try:
        yield
    finally:
        story.kube.patch("pods", head, {"metadata": {"finalizers": None}})


def test_suspend_and_resume(ground: Ground, records: Records, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    ground.kube.patch(PIPELINE, story.name, {"spec": {"suspend": True}})
    story.wait_until("no pods are left", lambda: not story.pods(), 120)
    story.wait_until("it says so", lambda: story.condition("Suspended").get("status"), 30)
    records.show(ground, story, SUSPENDED)
    ground.kube.patch(PIPELINE, story.name, {"spec": {"suspend": False}})
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["retries"]["retries"] == 0
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    figures.note("the pipeline is suspended and resumed", story, ground.look_back(story))


def test_a_suspension_longer_than_an_attempt_may_take(ground: Ground, figures: Figures) -> None:
    """Suspended time counts toward no deadline, and no cluster runs during the suspension."""
    spec: Json = {"deadlines": {"preRunning": "300s", "attempt": f"{ATTEMPT_SECONDS}s"}}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY, spec=spec)
    ground.kube.patch(PIPELINE, story.name, {"spec": {"suspend": True}})
    story.wait_until("no pods are left", lambda: not story.pods(), 120)
    left = ground.kube.list_all("rayjobs"), ground.kube.list_all("rayclusters")
    assert left == ([], []), story.describe()
    time.sleep(ATTEMPT_SECONDS + 20)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.condition("Suspended")["status"] == "True", story.describe()
    ground.kube.patch(PIPELINE, story.name, {"spec": {"suspend": False}})
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2]
    assert story.status["retries"]["retries"] == 0
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the pipeline is suspended for longer than its deadline", story, past)


def test_attempts_are_forgotten_after_their_time(ground: Ground, figures: Figures) -> None:
    """Old attempts are deleted; the status and the sources of the run remain."""
    spec: Json = {"ttlAfterFinished": f"{TTL_SECONDS}s"}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY, spec=spec)
    story.kill_head(1)
    # Do not wait for the cause, because the attempt may be deleted as soon as its cause is final.
    story.wait_until("the first attempt is forgotten", lambda: _list_numbers(story) == [2], 300)
    assert ground.kube.find("configmap", f"{story.name}-1") is None
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    assert story.status["retries"]["retries"] == 0  # an interruption uses no retry
    assert {number for number, _ in ground.opened} == {1, 2}
    time.sleep(TTL_SECONDS)
    assert _list_numbers(story) == [2]  # the newest attempt is always kept
    assert f"verified: {COUNT} finished sources" in ground.verify(story)
    figures.note_end("attempts are deleted after their time", "Completed")


def _list_numbers(story: Story) -> list[int]:
    return [attempt["spec"]["number"] for attempt in story.attempts]


def test_cancel(ground: Ground, records: Records, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    ground.kube.call("annotate", PIPELINE, story.name, "strandline.dev/cancel=enough")
    assert story.wait_for_end(120)["reason"] == "UserCancelled", story.describe()
    assert story.pods() == []
    records.take(ground, story, "cancelled", "The run is cancelled")
    figures.note_end("the run is cancelled", "UserCancelled")


def test_delete_in_mid_run(ground: Ground, records: Records, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    with _is_held(story):
        ground.kube.delete(PIPELINE, story.name)
        story.wait_until("it says so", lambda: story.status.get("phase") == "Deleting", 30)
        records.show(ground, story, DELETED)
    story.wait_until(
        "the pipeline is gone", lambda: ground.kube.find(PIPELINE, story.name) is None, 120
    )
    left = ground.kube.list_all("pods", "strandline.dev/pipeline-uid")
    assert left == []
    assert ground.kube.find("pvc", ground.ledger.claim)
    figures.note_end("the pipeline is deleted in mid-run", "Deleted")


@pytest.mark.alone
def test_an_operator_killed_in_mid_run(ground: Ground, records: Records, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    system = ground.kube.within("strandline-system")
    pod = ground.installation.operator_pod["metadata"]["name"]
    system.delete("pod", pod, "--grace-period=0", "--force")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    records.show(ground, story, KILLED)
    figures.note_absorbed("the operator is killed in mid-run", ground)
