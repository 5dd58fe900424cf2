"""A user changes objects of the operator or KubeRay, and the run reports the change and resumes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proving_ground.cluster.kube import Json, Kube
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
pytestmark = pytest.mark.extended


def _delete(kube: Kube, name: str) -> None:
    kube.delete("rayjob", name)


def _suspend(kube: Kube, name: str) -> None:
    kube.patch("rayjob", name, {"spec": {"suspend": True}})


def _delete_cluster(kube: Kube, name: str) -> None:
    rayjob = kube.find("rayjob", name)
    assert rayjob is not None
    kube.delete("raycluster", rayjob["status"]["rayClusterName"])


@pytest.mark.parametrize(
    ("meddle", "what"),
    [
        pytest.param(_delete, "the RayJob is deleted by hand", id="rayjob-deleted"),
        pytest.param(_suspend, "the RayJob is suspended by hand", id="rayjob-suspended"),
        pytest.param(_delete_cluster, "the RayCluster is deleted by hand", id="cluster-deleted"),
    ],
)
def test_what_kuberay_runs_is_touched(
    ground: Ground, figures: Figures, meddle: Callable[[Kube, str], None], what: str
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    with ground.held():
        meddle(ground.kube, story.attempt(1)["status"]["rayJob"]["name"])
        assert story.wait_for_cause(1, 180) == "Interrupted", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    past = ground.look_back(story)
    assert len(past.finished) >= EARLY
    assert past.finished.isdisjoint(past.second)
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    figures.note(what, story, past)


def test_the_submitter_is_deleted(ground: Ground, figures: Figures) -> None:
    """KubeRay treats the deletion as the end of its job. In any case, no work is lost."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    ground.kube.delete("pod", story.pods("submitter")[0]["metadata"]["name"])
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    cause = story.attempt(1)["status"].get("cause")
    if cause is None:  # the driver finished before KubeRay noticed the deletion
        figures.note_end("the submitter is deleted by hand", "Completed")
        return
    assert cause == "SubmissionFailed", story.describe()
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the submitter is deleted by hand", story, past)


@pytest.mark.alone
def test_a_pipeline_is_deleted_while_nobody_runs_rayjobs(ground: Ground, figures: Figures) -> None:
    carrier = ground.installation.carrier
    if ground.installation.node is None or carrier is None:
        pytest.skip("only on a node that was brought up here may KubeRay be taken away")
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    rayjob = story.attempt(1)["status"]["rayJob"]["name"]
    carrier.stop()
    try:
        ground.kube.delete("curationpipeline", story.name)
        story.wait_until(
            "the pipeline is gone",
            lambda: ground.kube.find("curationpipeline", story.name) is None,
            180,
        )
        assert ground.kube.list_all("pods", "strandline.dev/pipeline-uid") == []
    finally:
        carrier.start()
    story.wait_until(
        "KubeRay lets its RayJob go", lambda: ground.kube.find("rayjob", rayjob) is None, 120
    )
    assert ground.kube.list_all("pods", "strandline.dev/pipeline-uid") == []
    figures.note_end("the pipeline is deleted while KubeRay is gone", "Deleted")
