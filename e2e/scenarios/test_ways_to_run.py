"""Other ways to run than those the scenarios take: the driver in a sidecar, unhurried settings."""

from __future__ import annotations

import pytest

from proving_ground.figures import Figures
from proving_ground.ground import Ground
from proving_ground.kube import Json
from proving_ground.story import Story

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
pytestmark = pytest.mark.extended


def test_a_head_is_deleted_in_sidecar_mode(ground: Ground, figures: Figures) -> None:
    carrier = ground.installation.carrier
    if carrier is not None and not carrier.version:
        pytest.skip("the stand-in plays K8sJobMode only")
    # KubeRay gives its sidecar no security context, and lets nobody else give it one.
    enforce = "pod-security.kubernetes.io/enforce=baseline"
    ground.kube.call("label", "namespace", ground.kube.namespace, enforce, "--overwrite")
    ray = ground.render("x")["spec"]["ray"] | {"submissionMode": "SidecarMode"}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], spec={"ray": ray})
    _lose_head(ground, story, figures, "the head pod is deleted, SidecarMode")


@pytest.mark.usefixtures("unhurried")
def test_a_head_is_deleted_under_default_settings(ground: Ground, figures: Figures) -> None:
    story = ground.begin("corpus", count=3 * COUNT, stages=[WORK])
    _lose_head(ground, story, figures, "the head pod is deleted, settings of the chart")


def _lose_head(ground: Ground, story: Story, figures: Figures, what: str) -> None:
    story.wait_for_finished(EARLY)
    ground.kube.delete("pod", story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_cause(1, 240) == "Interrupted", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    past = ground.look_back(story)
    assert len(past.finished) >= EARLY
    assert past.finished.isdisjoint(past.second)
    figures.note(what, story, past)
