"""A worker group grows with the work, loses its nodes, and grows again during the run."""

from __future__ import annotations

import time

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.disturbances.pods import ask_for_slot, evict, offer_slots
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT, MOST, EARLY = 240, 3, 8
DRY_SECONDS = 60.0
GROWN_SECONDS = 180.0
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
WORK: Json = {"use": "tide:Work", "with": {"seconds": 1.0}}


@pytest.fixture(autouse=True)
def real_kuberay(ground: Ground) -> None:
    """Skip the test if the controller of RayJobs has no autoscaler."""
    carrier = ground.installation.carrier
    if carrier is not None and not carrier.version:
        pytest.skip("the stand-in has no autoscaler")


def _count_workers(story: Story) -> int:
    return len([pod for pod in story.pods("worker", 1) if pod["status"].get("phase") == "Running"])


def test_a_group_grows_while_work_waits(ground: Ground, figures: Figures) -> None:
    ray = ground.render("x")["spec"]["ray"]
    ray["workerGroups"][0] |= {"minReplicas": 1, "maxReplicas": MOST}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], spec={"ray": ray})
    story.wait_for_finished(1)
    story.wait_until("all workers", lambda: _count_workers(story) == MOST, GROWN_SECONDS)
    (head,) = story.pods("head", 1)
    for container in head["spec"]["containers"]:
        slots = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert (TOKEN in slots) == (container["name"] == "autoscaler")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    figures.note_end("a worker group grows while work waits", "Succeeded")


@pytest.mark.xdist_group("slots")
@pytest.mark.spot
def test_a_group_that_dries_out_is_filled_again(ground: Ground, figures: Figures) -> None:
    """The group has no nodes for a minute, and the same attempt continues."""
    ray = ground.render("x")["spec"]["ray"]
    group = ray["workerGroups"][0]
    group |= {"minReplicas": 0, "maxReplicas": MOST}
    container = group["podTemplate"]["spec"]["containers"][0]
    slot = ask_for_slot(container["name"])["spec"]["containers"][0]["resources"]
    container["resources"] = {
        kind: container["resources"].get(kind, {}) | slot[kind] for kind in ("requests", "limits")
    }
    with offer_slots(ground.kube) as offer:
        offer(MOST)
        story = ground.begin(
            "corpus", count=COUNT, stages=[WORK], finished=EARLY, spec={"ray": ray}
        )
        story.wait_until("all workers", lambda: _count_workers(story) == MOST, GROWN_SECONDS)
        offer(0)
        for pod in story.pods("worker", 1):
            evict(ground.kube, pod["metadata"]["name"])
        story.wait_until("no worker", lambda: not _count_workers(story), GROWN_SECONDS)
        time.sleep(DRY_SECONDS)
        assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
        assert story.condition("Succeeded")["status"] == "Unknown", story.describe()
        offer(MOST)
        story.wait_until("workers again", lambda: _count_workers(story) > 0, GROWN_SECONDS)
        assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    assert story.status["retries"]["retries"] == 0
    figures.note_end("an elastic group dries out and is filled again", "Succeeded")
