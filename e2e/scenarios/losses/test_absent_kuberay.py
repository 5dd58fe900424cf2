"""KubeRay is killed or absent: a run needs KubeRay to start and stop, not to continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from proving_ground.cluster.kube import Json, RefusedError
from proving_ground.ground import Ground
from proving_ground.installation.rayjobs import Carrier
from proving_ground.pipelines import KERNEL_ONLY
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = [pytest.mark.extended, pytest.mark.alone]

# `LONG` is enough work that the run does not end before the third kill.
COUNT, LONG, EARLY = 60, 200, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
# Together with Ray's own memory, this exceeds the first head's limit.
HEAD_MEBIBYTES = 1400


@pytest.fixture
def carrier(ground: Ground) -> Carrier:
    """Provide the controller of RayJobs. Skip unless the controller may be stopped."""
    found = ground.installation.carrier
    if ground.installation.node is None or found is None:
        pytest.skip("only on a node that was brought up here may KubeRay be taken away")
    return found


@contextmanager
def _is_away(carrier: Carrier) -> Iterator[None]:
    carrier.stop()
    try:
        yield
    finally:
        carrier.start()


def _wait_for_rayjob(story: Story, number: int, phase: str) -> None:
    """Wait until the RayJob of an attempt has this deployment status."""

    def look() -> bool:
        found = [attempt for attempt in story.attempts if attempt["spec"]["number"] == number]
        name = (found[0].get("status", {}).get("rayJob") or {}).get("name") if found else None
        rayjob = story.kube.find("rayjob", name) if name else None
        status = (rayjob or {}).get("status") or {}
        return bool(status.get("jobDeploymentStatus") == phase)

    story.wait_until(f"the RayJob of attempt {number} is {phase}", look, 180)


def test_kuberay_is_killed_in_each_phase(
    ground: Ground, figures: Figures, carrier: Carrier
) -> None:
    story = ground.begin("corpus", count=LONG, stages=[WORK])
    _wait_for_rayjob(story, 1, "Initializing")
    carrier.kill()
    story.wait_for_finished(EARLY)
    carrier.kill()
    finished = int(story.status["progress"]["finished"])
    story.wait_for_finished(finished + EARLY)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1], story.describe()
    # Kill KubeRay while it removes an attempt whose head is gone, and while it creates the next.
    story.kill_head(1)
    carrier.kill()
    assert story.wait_for_cause(1, 180) == "Interrupted", story.describe()
    _wait_for_rayjob(story, 2, "Initializing")
    carrier.kill()
    story.wait_until("all is finished", lambda: _is_finished(story), 400)
    carrier.kill()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2]
    assert story.status["retries"]["retries"] == 0  # an interruption uses no retry
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("KubeRay is killed in each phase, and the head too", story, past)


def _is_finished(story: Story) -> bool:
    return (story.status.get("progress") or {}).get("text") == f"{LONG}/{LONG}"


def test_kuberay_is_away_at_the_end(ground: Ground, figures: Figures, carrier: Carrier) -> None:
    """The driver's own report counts, and no pod waits for KubeRay, which cleans up later."""
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    with _is_away(carrier):
        _wait_until_torn_down(story)
        assert story.attempt(1)["status"]["outcome"]["exitCode"] == 0, story.describe()
        # KubeRay's own finalizer keeps the RayJob from being removed.
        assert story.condition("Succeeded")["reason"] == "TearingDown", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert set(ground.opened.values()) == {1}
    assert ground.kube.list_all("rayjobs") == []
    figures.note_end("KubeRay is away at the end", "Completed")


def _wait_until_torn_down(story: Story) -> None:
    """Wait until the only attempt has ended and its pods are gone."""
    story.wait_until(
        "the attempt has ended", lambda: story.attempt(1)["status"].get("endTime"), 300
    )
    story.wait_until("no pods are left", lambda: not story.pods(), 180)


def test_a_head_is_killed_for_memory_while_kuberay_is_away(
    ground: Ground, figures: Figures, carrier: Carrier
) -> None:
    spec: Json = {"oom": {"memoryFactor": 2}}
    story = ground.begin(
        "corpus", count=COUNT, stages=[WORK], env=KERNEL_ONLY, spec=spec, finished=EARLY
    )
    (head,) = story.pods("head", 1)
    with _is_away(carrier):
        fill = f"import tide; tide.fill_shared({HEAD_MEBIBYTES})"
        words = ("exec", head["metadata"]["name"], "-c", "ray-head", "--", "python", "-c", fill)
        with suppress(RefusedError):  # the command ends with the container
            ground.kube.call(*words)
        _wait_until_torn_down(story)
        # The next attempt may not start before KubeRay has released this attempt's RayJob.
        assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
        assert story.attempt(1)["status"]["cause"] == "OOMKilled", story.describe()
    assert story.wait_for_cause(1, 120) == "OOMKilled", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.attempt(2)["spec"]["memory"] == {"head": "3072Mi"}
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the head is killed for memory while KubeRay is away", story, past)
