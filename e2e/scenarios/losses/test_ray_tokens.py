"""Ray accepts only requests with the cluster's token, and the run survives the loss of any pod."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.cluster.volumes import Volume
from proving_ground.ground import Ground
from proving_ground.installation.enforcement import invite_stranger
from proving_ground.installation.kubectl_plugin import Plugin
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT, EARLY = 200, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
AUTH: Json = {"authOptions": {"mode": "token"}}
JOBS = 8265, "/api/jobs/"
KINDS = "curationpipelines,curationattempts,rayjobs,rayclusters,configmaps,jobs,pods,events"


def _ray(ground: Ground, **changes: Any) -> Json:
    return dict(ground.render("x")["spec"]["ray"]) | changes


def test_a_run_whose_ray_wants_a_token(ground: Ground, figures: Figures, tmp_path: Path) -> None:
    ground.kube.apply(_give({"ray": json.dumps(AUTH)}))
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    token = _read_token(story)
    with ground.held():
        for role in ("head", "worker", "submitter"):
            (pod,) = story.pods(role, 1)
            assert _has_token(pod), role
        _try_doors(ground, story, token)
        plugin = Plugin(ground.kube, tmp_path)
        for words in (("logs", "corpus"), ("verify", "corpus"), ("top", "corpus")):
            answer = plugin.ask(*words)
            assert answer.returncode == 0, answer.stderr
            assert token not in answer.stdout + answer.stderr
    _lose_worker(story)
    shown = story.describe() + ground.kube.call("get", KINDS, "-o", "json")
    story.kill_head(1)
    assert story.wait_for_cause(1, 240) == "Interrupted", story.describe()
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2]
    assert f"verified: {COUNT} finished sources" in ground.verify(story)
    shown += story.describe() + ground.kube.call("get", KINDS, "-o", "json")
    assert token not in shown
    assert list(_list_files_with(token, ground.ledger, ground.output)) == []
    figures.note("the head is killed, Ray wants a token", story, ground.look_back(story))


def test_a_sidecar_and_an_autoscaler_have_the_token_too(ground: Ground) -> None:
    carrier = ground.installation.carrier
    if carrier is not None and not carrier.version:
        pytest.skip("the stand-in plays neither")
    # KubeRay sets no security context for its sidecar and offers no way to set one.
    enforce = "pod-security.kubernetes.io/enforce=baseline"
    ground.kube.call("label", "namespace", ground.kube.namespace, enforce, "--overwrite")
    # Configure no token: from this version on, Ray requires a token by default.
    ray = _ray(ground, submissionMode="SidecarMode", version="2.61.0")
    ray["workerGroups"][0]["maxReplicas"] = 2
    story = ground.begin("corpus", stages=[WORK], spec={"ray": ray}, finished=1)
    (head,) = story.pods("head", 1)
    assert len(head["spec"]["containers"]) == 3
    assert _has_token(head)
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]


def test_a_ray_that_wants_a_token_and_is_given_none(ground: Ground, figures: Figures) -> None:
    """Ray requires a token that KubeRay did not create, and the attempt ends with a message.

    A Ray version that requires a token by default has the same effect if the spec names no version.
    """
    story = ground.begin("corpus", env={MODE: "token"})
    assert story.wait_for_cause(1, 180) == "InvalidSpec", story.describe()
    assert story.wait_for_end(60)["reason"] == "InvalidSpec"
    message = story.attempt(1)["status"]["message"]
    assert message.startswith("Ray requires a token, but head pod corpus-1-"), message
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    figures.note_end("Ray wants a token, and there is none", "InvalidSpec")


def _give(data: Json) -> Json:
    """Return the ConfigMap with the defaults of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "strandline-defaults"},
        "data": data,
    }


def _read_token(story: Story) -> str:
    """Return the cluster's token from the Secret that KubeRay created."""
    (cluster,) = story.kube.list_all("rayclusters")
    secret = story.kube.find("secret", cluster["metadata"]["name"])
    assert secret is not None, story.describe()
    return base64.b64decode(secret["data"]["auth_token"]).decode()


def _has_token(pod: Json) -> bool:
    """Return whether every container reads the token from its Secret, not from a literal value."""
    spec = pod["spec"]
    variables = [each["env"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
    named = [
        {variable["name"]: variable.get("valueFrom") for variable in each} for each in variables
    ]
    return all(MODE in each and "secretKeyRef" in (each.get(TOKEN) or {}) for each in named)


def _list_files_with(token: str, *volumes: Volume) -> Iterator[Path]:
    """Yield a run's files that contain the token, on volumes with an accessible folder."""
    for volume in volumes:
        if volume.folder is not None:
            for path in volume.folder.rglob("*"):
                if path.is_file() and token.encode() in path.read_bytes():
                    yield path


def _try_doors(ground: Ground, story: Story, token: str) -> None:
    """Request the head's dashboard from another pod with no token, a wrong one, the right one."""
    (head,) = story.pods("head", 1)
    address = head["status"]["podIP"]
    with invite_stranger(ground.kube, ground.runtime_image) as stranger:
        assert stranger.ask(address, *JOBS) == 401
        assert stranger.ask(address, *JOBS, token=token[::-1]) == 403
        assert stranger.ask(address, *JOBS, token=token) == 200


def _lose_worker(story: Story) -> None:
    """Kill a worker, and wait until its replacement has finished work."""
    (worker,) = story.pods("worker", 1)
    name = worker["metadata"]["name"]
    story.kube.delete("pod", name, "--grace-period=0", "--force")
    story.wait_until(
        "another worker is ready",
        lambda: any(
            pod["metadata"]["name"] != name and _is_ready(pod) for pod in story.pods("worker", 1)
        ),
        180,
    )
    story.wait_for_finished(int(story.status["progress"]["finished"]) + EARLY)


def _is_ready(pod: Json) -> bool:
    """Return whether the kubelet reports the pod as ready, which requires a successful probe."""
    conditions = pod["status"].get("conditions", ())
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
