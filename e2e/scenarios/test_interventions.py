"""People and operators come in between: suspend, cancel, delete, kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proving_ground.figures import Figures
from proving_ground.ground import Ground
from proving_ground.kube import Json
from proving_ground.records import Expectation, Records
from proving_ground.story import PIPELINE, Story

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
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
    """Let the head's pod not go meanwhile, or there would be nothing left to look at."""
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


def test_an_operator_killed_in_mid_run(ground: Ground, records: Records, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    system = ground.kube.within("strandline-system")
    pod = ground.installation.operator_pod["metadata"]["name"]
    system.delete("pod", pod, "--grace-period=0", "--force")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    records.show(ground, story, KILLED)
    figures.note_absorbed("the operator is killed in mid-run", ground)
