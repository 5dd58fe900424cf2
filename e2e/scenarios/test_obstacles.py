"""What keeps an attempt from running: each ends in a word and a sentence, none in a loop."""

from __future__ import annotations

from typing import Any

import pytest

from proving_ground.ground import Ground
from proving_ground.records import Records
from proving_ground.story import Story

pytestmark = pytest.mark.extended
ONCE: dict[str, Any] = {"retry": {"maxRetries": 0, "delay": "1s"}}


def _ray(ground: Ground, **changes: Any) -> dict[str, Any]:
    return dict(ground.render("x")["spec"]["ray"]) | changes


def _few_events(story: Story) -> None:
    uid = story.pipeline["metadata"]["uid"]
    words = ("get", "events", "--field-selector", f"involvedObject.uid={uid}", "-o", "name")
    assert len(story.kube.say(*words).split()) <= 10


def test_an_image_that_is_not_there(ground: Ground, records: Records) -> None:
    ray = _ray(ground, image="localhost/nobody/has:this")
    story = ground.begin("corpus", spec=ONCE | {"ray": ray})
    assert story.wait_for_cause(1, 180) == "ImagePullFailure", story.tell()
    assert "localhost/nobody/has:this" in story.attempt(1)["status"]["message"]
    assert story.wait_for_end(60)["reason"] == "ImagePullFailure"
    records.take(ground, story, "image-not-there", "The image is not there")
    _few_events(story)


def test_a_request_no_node_can_hold(ground: Ground, records: Records) -> None:
    ray = _ray(ground)
    ray["workerGroups"][0]["resources"]["memory"] = "900Gi"
    deadlines = {"preRunning": "30s"}
    story = ground.begin("corpus", spec=ONCE | {"ray": ray, "deadlines": deadlines})
    assert story.wait_for_cause(1, 180) == "SchedulingTimeout", story.tell()
    assert "nsufficient memory" in story.attempt(1)["status"]["message"]
    records.take(ground, story, "no-node-large-enough", "No node can hold what is asked for")


def test_a_claim_that_never_binds(ground: Ground, records: Records) -> None:
    storage = {"ledger": {"size": "1Gi", "storageClassName": "nobody-provides-this"}}
    deadlines = {"preRunning": "30s"}
    story = ground.begin("corpus", spec=ONCE | {"storage": storage, "deadlines": deadlines})
    # Many classes bind a claim only when a pod asks for it, so an attempt is made.
    story.wait_until(
        "the condition says that the claim has no volume",
        lambda: story.condition("StorageReady").get("reason") == "ClaimPending",
        60,
    )
    assert story.wait_for_cause(1, 180) == "SchedulingTimeout", story.tell()
    message = story.attempt(1)["status"]["message"]
    assert "PersistentVolumeClaim" in message or "nobody-provides-this" in message
    records.take(ground, story, "claim-not-bound", "The claim never gets a volume")
    _few_events(story)


def test_a_quota(ground: Ground, records: Records) -> None:
    ground.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"count/rayjobs.ray.io": "0"}},
        }
    )
    ground.kube.say("wait", "--for=jsonpath={.status.hard}", "resourcequota/none", "--timeout=30s")
    story = ground.begin("corpus", spec=ONCE)
    assert story.wait_for_end(120)["reason"] == "QuotaExceeded", story.tell()
    records.take(ground, story, "quota-exceeded", "The quota is used up")
    _few_events(story)
