"""A first user's run: the chart's defaults, and a pipeline without time settings."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from proving_ground.ground import Ground
from proving_ground.installation.chart import RELEASE, Installation
from proving_ground.story import Story

pytestmark = [pytest.mark.extended, pytest.mark.alone]
EXAMPLE = Path(__file__).parents[3] / "pipelines" / "examples" / "python-functions.yaml"
# Set only the volumes and the Ray cluster. Deadlines, retries, and checkpoints keep their defaults.
CLUSTER_FIELDS = ("storage", "ray")
READY_SECONDS = 60  # the driver may start before the kubelet's next probe


def test_the_main_path_on_the_charts_defaults(unhurried: Installation, ground: Ground) -> None:
    given = json.loads(unhurried.run_helm("get", "values", RELEASE, "--output=json"))
    assert not given.get("settings")
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    cluster = ground.render(example["metadata"]["name"])["spec"]
    example["spec"] |= {name: cluster[name] for name in CLUSTER_FIELDS}
    # Each stage has its own process, so a worker needs more memory.
    example["spec"]["ray"]["workerGroups"][0]["resources"]["memory"] = "3Gi"
    story = Story(ground.kube, example["metadata"]["name"])
    story.begin(example)
    story.wait_for_phase(1, "Running", 300)
    for role in ("head", "worker"):
        story.wait_until(f"the {role} is ready", partial(_are_ready, story, role), READY_SECONDS)
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    progress = story.status["progress"]
    assert progress["finished"] == progress["total"] > 0


def _are_ready(story: Story, role: str) -> bool:
    return all(map(is_ready, story.pods(role)))


def is_ready(pod: dict[str, Any]) -> bool:
    """Return whether the kubelet reports the pod as ready, which requires a successful probe."""
    assert "readinessProbe" in pod["spec"]["containers"][0]
    conditions = pod["status"]["conditions"]
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
