"""The environment of a run fails or changes: API server, namespace, and installation."""

from __future__ import annotations

import time

import pytest

from proving_ground.cluster.kube import Json, RefusedError
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures

pytestmark = pytest.mark.extended

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
# Longer than the timeouts of requests and watches, but shorter than the time until pods are removed
# from a lost node.
AWAY_SECONDS = 25
DRIVER_PORT = 8790


@pytest.mark.alone
def test_an_api_server_that_is_away_for_a_while(ground: Ground, figures: Figures) -> None:
    node = ground.installation.node
    if node is None:
        pytest.skip("only on a node that was brought up here may its API server be taken away")
    story = ground.begin("corpus", count=2 * COUNT, stages=[WORK], finished=EARLY)
    node.stop("kube-apiserver")
    try:
        time.sleep(AWAY_SECONDS)
    finally:
        node.start("kube-apiserver")
    story.wait_until("the API server answers", lambda: _answers(ground), 60)
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.status["progress"]["text"] == f"{2 * COUNT}/{2 * COUNT}"
    figures.note_absorbed("the API server is away for 25 s", ground)


def _answers(ground: Ground) -> bool:
    try:
        return bool(ground.kube.call("get", "--raw", "/readyz"))
    except RefusedError:
        return False


def test_a_namespace_deleted_in_mid_run(ground: Ground, figures: Figures) -> None:
    """All objects of the namespace are deleted, and the operator keeps serving other namespaces."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    before = ground.installation.operator_pod
    ground.kube.delete("namespace", ground.kube.namespace)
    story.wait_until(
        "the namespace is gone",
        lambda: ground.kube.find("namespace", ground.kube.namespace) is None,
        180,
    )
    after = ground.installation.operator_pod
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    (container,) = after["status"]["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
    figures.note_end("the namespace is deleted in mid-run", "Deleted")


@pytest.mark.alone
def test_values_of_the_chart_changed_in_mid_run(ground: Ground, figures: Figures) -> None:
    """A run keeps its initial settings: its driver listens on the previous operator's port."""
    installation = ground.installation
    settings = installation.values["settings"]
    assert isinstance(settings, dict)
    story = ground.begin("corpus", count=3 * COUNT, stages=[WORK], finished=EARLY)
    changed = settings | {"driverPort": DRIVER_PORT, "statusInterval": "3s", "resync": "15s"}
    try:
        installation.upgrade(settings=changed, attemptNetworkPolicy={"enabled": True})
        finished = int(story.status["progress"]["finished"])
        story.wait_for_finished(finished + EARLY)
        assert story.condition("Succeeded")["status"] == "Unknown", story.describe()
        story.kill_head(1)
        assert story.wait_for_cause(1, 180) == "Interrupted", story.describe()
        assert story.wait_for_end()["status"] == "True", story.describe()
    finally:
        installation.upgrade()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2]
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("values of the chart are changed in mid-run, then the head is lost", story, past)
