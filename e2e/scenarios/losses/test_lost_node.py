"""The node of a run stops responding and recovers, or is deleted and replaced."""

from __future__ import annotations

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.results.records import Records

# Containers keep running while the kubelet is silent, so the work must outlast the detection of the
# loss.
COUNT, EARLY = 240, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
pytestmark = [pytest.mark.extended, pytest.mark.spot, pytest.mark.alone]


def test_a_node_that_comes_back(ground: Ground, figures: Figures, records: Records) -> None:
    node = ground.installation.node
    if node is None:
        pytest.skip("only a node that was brought up here can be taken down")
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    node.stop_kubelet()
    try:
        story.wait_until(
            "the pipeline says that it waits for pods of a lost node",
            lambda: "node" in story.condition("Succeeded").get("message", ""),
            180,
        )
    finally:
        node.start_kubelet()
    assert story.wait_for_cause(1, 400) == "NodeLost", story.describe()
    records.take(ground, story, "node-lost", "The node is lost, and comes back")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["retries"]["retries"] == 0
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the node is lost and comes back", story, past)


def test_a_node_that_is_deleted(ground: Ground, figures: Figures) -> None:
    """A machine is lost, and its cloud deletes the node, on which the operator also ran."""
    node = ground.installation.node
    if node is None:
        pytest.skip("only a node that was brought up here can be taken down")
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    (head,) = story.pods("head", 1)
    node.stop_kubelet()
    try:
        ground.kube.delete("node", head["spec"]["nodeName"])
        story.wait_until(
            "the pod of the head is gone",
            lambda: head["metadata"]["name"] not in _list_names(story.pods("head", 1)),
            180,
        )
    finally:
        node.start_kubelet()
    assert story.wait_for_cause(1, 400) == "NodeLost", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["retries"]["retries"] == 0
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the node is deleted and another one comes", story, past)


def _list_names(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
