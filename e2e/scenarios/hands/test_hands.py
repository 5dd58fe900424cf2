"""Tasks of a person on call: catch a typo before a cluster starts, keep pods, and read a log.

The chart enables the check of pipelines here, and a kubelet runs the check's Job.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.installation.chart import Installation
from proving_ground.installation.kubectl_plugin import Plugin
from proving_ground.story import PIPELINE, Story

pytestmark = pytest.mark.extended

COUNT = 20
SLIP: Json = {"use": "tide:Work", "with": {"secnods": 0.1}}
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.1}}
BREAK: Json = {"use": "tide:Break"}
HOLD: Json = {"holdOnFailure": "10m", "retry": {"maxRetries": 0}}


@pytest.fixture
def plugin(ground: Ground, tmp_path: Path) -> Plugin:
    return Plugin(ground.kube, tmp_path)


@pytest.fixture
def checking(installation: Installation) -> Iterator[None]:
    """Enable the check of pipelines for one test, and disable it afterwards."""
    installation.upgrade(preflight={"enabled": True})
    yield
    installation.upgrade()


def _find_reason(story: Story, type_: str) -> tuple[str, str]:
    condition = story.condition(type_)
    return condition.get("status", ""), condition.get("reason", "")


@pytest.mark.alone
@pytest.mark.usefixtures("checking")
def test_a_slip_is_found_before_there_is_a_cluster(ground: Ground) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[SLIP])
    assert story.wait_for_end()["reason"] == "InvalidSpec", story.describe()
    assert _find_reason(story, "SpecApplied") == ("False", "PreflightFailed")
    assert "'secnods'" in story.status["state"]
    assert "did you mean 'seconds'?" in story.status["state"]
    assert (story.attempts, story.pods()) == ([], [])
    assert "sha256:" in story.status["preflight"]["image"]
    stages = [*story.pipeline["spec"]["stages"][:-1], WORK]
    ground.kube.patch(PIPELINE, story.name, {"spec": {"stages": stages}})
    ground.kube.call("annotate", PIPELINE, story.name, "strandline.dev/retry=1")
    assert story.wait_for_phase(1, "Succeeded", 400), story.describe()
    assert _find_reason(story, "SpecApplied") == ("True", "Applied")
    assert ground.kube.list_all("jobs", "strandline.dev/preflight") == []


def test_pods_of_a_failed_run_are_kept_and_its_log_is_read_afterwards(
    ground: Ground, plugin: Plugin
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[BREAK], spec=HOLD)
    story.wait_for_phase(1, "Held", 400)
    assert _find_reason(story, "Stalled") == ("True", "Held"), story.describe()
    (head,) = story.pods("head")
    looked = ("-c", "ray-head", "--", "printenv", "STRANDLINE_ATTEMPT")
    assert ground.kube.call("exec", head["metadata"]["name"], *looked).strip() == "1"
    ground.kube.call("annotate", PIPELINE, story.name, "strandline.dev/cancel=1")
    assert story.wait_for_cause(1, 180) == "SourcesFailed", story.describe()
    assert story.pods() == []
    log = plugin.ask("logs", "corpus")
    assert log.returncode == 0, log.stderr
    assert "is read" in log.stderr
    assert "can't be read" not in log.stderr
    assert "broken on purpose" in log.stdout
    assert len([attempt["spec"]["number"] for attempt in story.attempts]) == 1
