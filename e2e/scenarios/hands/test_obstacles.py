"""Obstacles before an attempt: each obstacle leads to a reason and a message, not to a loop."""

from __future__ import annotations

from typing import Any

import pytest

from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.results.records import Records
from proving_ground.story import Story

pytestmark = pytest.mark.extended
COUNT = 12
ONCE: dict[str, Any] = {"retry": {"maxRetries": 0, "delay": "1s"}}


def _ray(ground: Ground, **changes: Any) -> dict[str, Any]:
    return dict(ground.render("x")["spec"]["ray"]) | changes


def _few_events(story: Story) -> None:
    uid = story.pipeline["metadata"]["uid"]
    words = ("get", "events", "--field-selector", f"involvedObject.uid={uid}", "-o", "name")
    assert len(story.kube.call(*words).split()) <= 10


def test_an_image_that_is_not_there(ground: Ground, records: Records, figures: Figures) -> None:
    ray = _ray(ground, image="localhost/nobody/has:this")
    story = ground.begin("corpus", spec=ONCE | {"ray": ray})
    assert story.wait_for_cause(1, 180) == "ImagePullFailure", story.describe()
    assert "localhost/nobody/has:this" in story.attempt(1)["status"]["message"]
    assert story.wait_for_end(60)["reason"] == "ImagePullFailure"
    records.take(ground, story, "image-not-there", "The image is not there")
    figures.note_end("the image is not there", "ImagePullFailure")
    _few_events(story)


def test_a_request_no_node_can_hold(ground: Ground, records: Records, figures: Figures) -> None:
    ray = _ray(ground)
    ray["workerGroups"][0]["resources"]["memory"] = "900Gi"
    deadlines = {"preRunning": "30s"}
    story = ground.begin("corpus", spec=ONCE | {"ray": ray, "deadlines": deadlines})
    assert story.wait_for_cause(1, 180) == "SchedulingTimeout", story.describe()
    assert "nsufficient memory" in story.attempt(1)["status"]["message"]
    records.take(ground, story, "no-node-large-enough", "No node can hold what is asked for")
    figures.note_end("no node can hold what is asked for", "SchedulingTimeout")


def test_a_claim_that_never_binds(ground: Ground, records: Records, figures: Figures) -> None:
    storage = {"ledger": {"size": "1Gi", "storageClassName": "nobody-provides-this"}}
    deadlines = {"preRunning": "30s"}
    story = ground.begin("corpus", spec=ONCE | {"storage": storage, "deadlines": deadlines})
    # The operator creates an attempt anyway, because many storage classes bind a claim only when a
    # pod uses it.
    story.wait_until(
        "the condition says that the claim has no volume",
        lambda: story.condition("StorageReady").get("reason") == "ClaimPending",
        60,
    )
    assert story.wait_for_cause(1, 180) == "VolumeUnusable", story.describe()
    message = story.attempt(1)["status"]["message"]
    assert "PersistentVolumeClaim" in message or "nobody-provides-this" in message
    records.take(ground, story, "claim-not-bound", "The claim never gets a volume")
    figures.note_end("the claim never gets a volume", "VolumeUnusable")
    _few_events(story)


def test_a_quota(ground: Ground, figures: Figures) -> None:
    ground.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"count/rayjobs.ray.io": "0"}},
        }
    )
    ground.kube.call("wait", "--for=jsonpath={.status.hard}", "resourcequota/none", "--timeout=30s")
    story = ground.begin("corpus", spec=ONCE)
    story.wait_until(
        "the condition says that the quota has no room",
        lambda: story.condition("Succeeded").get("reason") == "QuotaUsedUp",
        120,
    )
    assert "exceeded quota: none" in story.condition("Succeeded")["message"]
    _few_events(story)
    ground.kube.delete("resourcequota", "none")
    assert story.wait_for_end()["status"] == "True", story.describe()
    figures.note_end("a quota has no room for the RayJob, and then has", "Completed")


def _limit(ground: Ground, **bounds: dict[str, str]) -> None:
    """Create a LimitRange for the namespace's containers."""
    spec = {"limits": [{"type": "Container", **bounds}]}
    metadata = {"name": "bounds"}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}
    ground.kube.apply(body)


def test_a_limit_range_that_lets_all_in(ground: Ground, figures: Figures) -> None:
    """A LimitRange that sets default limits and a minimum for every container rejects no pod."""
    _limit(
        ground,
        default={"cpu": "1", "memory": "512Mi"},
        defaultRequest={"cpu": "50m", "memory": "64Mi"},
        min={"cpu": "20m", "memory": "16Mi"},
        max={"cpu": "2", "memory": "4Gi"},
    )
    story = ground.begin("corpus", count=COUNT, spec=ONCE)
    story.wait_for_finished(1)
    for pod in story.pods():
        for container in pod["spec"]["containers"]:
            assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    assert story.wait_for_end()["status"] == "True", story.describe()
    figures.note_end("a LimitRange bounds what containers may have", "Completed")


def test_a_limit_range_that_refuses_the_head(ground: Ground, figures: Figures) -> None:
    _limit(ground, max={"memory": "1Gi"})
    deadlines = {"preRunning": "45s"}
    story = ground.begin("corpus", spec=ONCE | {"deadlines": deadlines})
    assert "maximum memory usage per Container is 1Gi" in _wait_for_event(
        story, "ObjectRefused", 60
    )
    assert story.wait_for_cause(1, 180) == "SchedulingTimeout", story.describe()
    assert "maximum memory usage" in story.attempt(1)["status"]["message"]
    _few_events(story)
    figures.note_end("a LimitRange refuses the head", "SchedulingTimeout")


def _wait_for_event(story: Story, reason: str, seconds: float) -> str:
    """Wait until the condition has this reason, and return its message."""
    story.wait_until(
        f"the condition says {reason}",
        lambda: story.condition("Succeeded").get("reason") == reason,
        seconds,
    )
    return str(story.condition("Succeeded")["message"])


def _bring(ground: Ground, role: str, **changes: Any) -> dict[str, Any]:
    """Return a spec whose pod template for a role has additional list items."""
    ray = _ray(ground)
    node = ray["head"] if role == "head" else ray["workerGroups"][0]
    pod = node["podTemplate"]["spec"]
    for name, items in changes.items():
        owner = pod if name == "volumes" else pod["containers"][0]
        owner.setdefault(name, []).extend(items)
    return {"ray": ray}


def test_a_secret_that_is_not_there(ground: Ground) -> None:
    key = {"secretKeyRef": {"name": "s3-credentials", "key": "secret"}}
    spec = _bring(ground, "head", env=[{"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": key}])
    story = ground.begin("corpus", spec=spec)
    message = _wait_for_event(story, "ContainerNotStarted", 60)
    assert 'secret "s3-credentials" not found' in message
    ground.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s3-credentials"},
            "stringData": {"secret": "x"},
        }
    )
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]


def test_a_volume_that_is_not_mounted(ground: Ground) -> None:
    spec = _bring(
        ground,
        "worker",
        volumes=[{"name": "models", "configMap": {"name": "models"}}],
        volumeMounts=[{"name": "models", "mountPath": "/models"}],
    )
    story = ground.begin("corpus", spec=ONCE | {"deadlines": {"preRunning": "90s"}} | spec)
    assert 'configmap "models" not found' in _wait_for_event(story, "VolumeNotMounted", 60)
    assert story.wait_for_cause(1, 240) == "SchedulingTimeout", story.describe()
    assert 'configmap "models" not found' in story.attempt(1)["status"]["message"]


def test_a_quota_on_pods(ground: Ground, records: Records, figures: Figures) -> None:
    ground.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small"},
            "spec": {"hard": {"limits.memory": "700Mi"}},
        }
    )
    ground.kube.call(
        "wait", "--for=jsonpath={.status.hard}", "resourcequota/small", "--timeout=30s"
    )
    story = ground.begin("corpus", spec=ONCE)
    assert story.wait_for_cause(1, 120) == "QuotaExceeded", story.describe()
    assert "exceeded quota: small" in story.attempt(1)["status"]["message"]
    records.take(ground, story, "quota-exceeded", "The quota is used up")
    figures.note_end("the quota is used up", "QuotaExceeded")
