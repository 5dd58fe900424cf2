"""Other ways to run: the driver in a sidecar, extra sidecars, and default settings."""

from __future__ import annotations

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.commands import CONFINED
from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.story import Story

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
SIGN = "/dev/shm/ended"  # noqa: S108 - in the container
pytestmark = pytest.mark.extended


def test_a_head_is_deleted_in_sidecar_mode(ground: Ground, figures: Figures) -> None:
    carrier = ground.installation.carrier
    if carrier is not None and not carrier.version:
        pytest.skip("the stand-in plays K8sJobMode only")
    # KubeRay sets no security context for its sidecar and offers no way to set one.
    enforce = "pod-security.kubernetes.io/enforce=baseline"
    ground.kube.call("label", "namespace", ground.kube.namespace, enforce, "--overwrite")
    ray = ground.render("x")["spec"]["ray"] | {"submissionMode": "SidecarMode"}
    story = ground.begin("corpus", count=COUNT, stages=[WORK], spec={"ray": ray})
    _lose_head(ground, story, figures, "the head pod is deleted, SidecarMode")


@pytest.mark.alone
@pytest.mark.usefixtures("unhurried")
def test_a_head_is_deleted_under_default_settings(ground: Ground, figures: Figures) -> None:
    story = ground.begin("corpus", count=3 * COUNT, stages=[WORK])
    _lose_head(ground, story, figures, "the head pod is deleted, settings of the chart")


@pytest.mark.parametrize(
    ("end", "what"),
    [
        pytest.param("raise SystemExit(1)", "ends", id="ends"),
        pytest.param("b'x' * (200 << 20)", "is killed for memory", id="killed"),
    ],
)
def test_a_sidecar_of_the_head_alone(ground: Ground, figures: Figures, end: str, what: str) -> None:
    """Neither a sidecar that ends early nor a sidecar that never ends counts as the driver."""
    ray = ground.render("x")["spec"]["ray"]
    agents = [_render_agent(ground, "agent", end), _render_agent(ground, "lasting", "")]
    ray["head"]["podTemplate"]["spec"]["containers"].extend(agents)
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY, spec={"ray": ray})
    (head,) = story.pods("head", 1)
    assert all(len(pod["spec"]["containers"]) == 1 for pod in story.pods("worker", 1))
    ground.kube.call("exec", head["metadata"]["name"], "-c", "agent", "--", "touch", SIGN)
    story.wait_until("the agent is gone", lambda: _has_ended(story, "agent"), 60)
    assert story.condition("Succeeded")["status"] == "Unknown", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert set(ground.opened.values()) == {1}
    story.wait_until("no pods are left", lambda: not story.pods(), 120)
    figures.note_absorbed(f"a sidecar of the head alone {what}", ground)


def _render_agent(ground: Ground, name: str, end: str) -> Json:
    """Render a container that waits until a file exists, and then runs `end`."""
    lines = ("import os, time", f"while not os.path.exists('{SIGN}'): time.sleep(0.2)", end)
    resources = {"cpu": "20m", "memory": "64Mi"}
    return {
        "name": name,
        "image": ground.runtime_image,
        "command": ["python", "-c", "\n".join(lines)],
        "resources": {"requests": resources, "limits": resources | {"cpu": "1"}},
        "securityContext": CONFINED,
    }


def _has_ended(story: Story, container: str) -> bool:
    (head,) = story.pods("head", 1)
    states = head["status"]["containerStatuses"]
    return any(it["name"] == container and "terminated" in it["state"] for it in states)


def _lose_head(ground: Ground, story: Story, figures: Figures, what: str) -> None:
    story.wait_for_finished(EARLY)
    ground.kube.delete("pod", story.pods("head")[0]["metadata"]["name"])
    assert story.wait_for_cause(1, 240) == "Interrupted", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    past = ground.look_back(story)
    assert len(past.finished) >= EARLY
    assert past.finished.isdisjoint(past.second)
    figures.note(what, story, past)
