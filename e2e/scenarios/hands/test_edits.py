"""A pipeline is edited during a run: the ledger's recipe counts until the owner decides."""

from __future__ import annotations

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.story import PIPELINE

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
pytestmark = pytest.mark.extended


def test_other_stages_on_the_same_ledger(ground: Ground, figures: Figures) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    stages = story.pipeline["spec"]["stages"]
    quicker = {"spec": {"stages": [*stages[:-1], {**WORK, "with": {"seconds": 0.1}}]}}
    ground.kube.patch(PIPELINE, story.name, quicker)
    story.wait_until(
        "it says that the edit waits",
        lambda: story.condition("SpecApplied").get("reason") == "WaitsForNextAttempt",
        60,
    )
    ground.kube.delete("pod", story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_end()["reason"] == "LedgerMismatch", story.describe()
    assert [attempt["status"]["cause"] for attempt in story.attempts] == [
        "Interrupted",
        "LedgerMismatch",
    ]
    figures.note_end("the stages are edited in mid-run", "LedgerMismatch")
    # The ledger keeps the first attempt's work: after the old stages are restored, the run resumes.
    ground.kube.patch(PIPELINE, story.name, {"spec": {"stages": stages}})
    ground.kube.call("annotate", PIPELINE, story.name, "strandline.dev/retry=1")
    assert story.wait_for_phase(3, "Succeeded", 300), story.describe()
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
