"""The previous release and the current code replace each other during a run.

The previous release consists of the operator, CRDs, and images that users had installed.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.installation.release_before import ReleaseBefore
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records
from proving_ground.story import Story

# Enough sources to outlast two installations.
COUNT, EARLY = 150, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 1}}
UPGRADED = Expectation(
    "operator-upgraded",
    "The operator is upgraded in mid-run, and the run goes on",
    "Completed",
    "RunSucceeded",
    'strandline_attempts_total{cause="Completed"}',
)
pytestmark = [pytest.mark.extended, pytest.mark.alone]


def _wait_for_more(story: Story) -> None:
    """Wait until the current operator reports that the running driver has finished more sources."""
    story.wait_for_finished(int(story.status["progress"]["finished"]) + EARLY)
    assert story.condition("Succeeded")["status"] == "Unknown", story.describe()


def _find_image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def test_an_operator_upgraded_in_mid_run(
    ground: Ground, records: Records, figures: Figures, release_before: ReleaseBefore
) -> None:
    """The operator is upgraded, rolled back, and upgraded again; the run is not affected."""
    installation, newer = ground.installation, ground.runtime_image
    with release_before.installed(installation):
        older = ground.runtime_image
        story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
        with ground.held():
            installation.upgrade()
        _wait_for_more(story)
        with ground.held():
            release_before.install(installation)
        _wait_for_more(story)
    assert ground.runtime_image == newer != older
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert set(ground.opened.values()) == {1}
    assert f"verified: {COUNT} finished sources" in ground.verify(story)
    records.show(ground, story, UPGRADED)
    figures.note_absorbed("the operator is upgraded in mid-run", ground)


def test_an_operator_taken_back_in_mid_run(ground: Ground, release_before: ReleaseBefore) -> None:
    """The previous release resumes a run, and its ledger, that the current code started."""
    newer = ground.runtime_image
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    with ExitStack() as stack:
        # Hold the tasks, because the installation and the lease of the replaced operator may take
        # as long as the run.
        with ground.held():
            stack.enter_context(release_before.installed(ground.installation))
            (head,) = story.pods("head", 1)
            story.kube.delete("pod", head["metadata"]["name"])
            story.wait_for_phase(2, "Running", 300)
        images = [_find_image(pod) for pod in (head, *story.pods("head", 2))]
        assert images == [newer, ground.runtime_image]
        assert newer != ground.runtime_image
        assert story.wait_for_end()["status"] == "True", story.describe()
        assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2]
        again = ground.look_back(story)
        assert again.finished
        assert not again.finished & again.second
    # The current operator finds an ended run and leaves it unchanged.
    assert story.condition("Succeeded")["status"] == "True", story.describe()
    assert f"verified: {COUNT} finished sources" in ground.verify(story)
