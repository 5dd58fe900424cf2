"""A group of workers grows while work waits, and the run goes on all the while."""

from __future__ import annotations

import pytest

from proving_ground.figures import Figures
from proving_ground.ground import Ground
from proving_ground.kube import Json
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT, MOST = 240, 3
GROWN_SECONDS = 180.0
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where it is mounted
WORK: Json = {"use": "tide:Work", "with": {"seconds": 1.0}}


@pytest.fixture(autouse=True)
def real_kuberay(ground: Ground) -> None:
    """Require that whoever carries RayJobs out has an autoscaler."""
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
