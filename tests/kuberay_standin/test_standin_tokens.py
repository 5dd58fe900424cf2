"""A RayCluster with `authOptions: {mode: token}` has a token, as with KubeRay v1.7."""

from __future__ import annotations

import base64
import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kuberay_standin.core import step
from kuberay_standin.objects import Json
from kuberay_standin.rayclusters.pods import make_head, make_worker
from kuberay_standin.rayclusters.tokens import read_token
from kuberay_standin.rayjobs.jobs import make_cluster, make_job
from kuberay_standin.rayjobs.refusals import find_problem
from kuberay_standin.scene import Make, Scene

SUBMITTED: Json = json.loads(
    (Path(__file__).parent / "s-k-success-made.json").read_text(encoding="utf-8")
)["submitted"]
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


def submit(**options: str) -> Json:
    rayjob: Json = copy.deepcopy(SUBMITTED)
    rayjob["metadata"]["uid"] = "uid-of-rj"
    rayjob["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
    status = {"jobDeploymentStatus": "Initializing", "startTime": "2026-11-25T12:00:00Z"}
    rayjob["status"] = status | {"rayClusterName": "rj-abcde", "jobId": "rj-x4r7b"}
    cluster = rayjob["spec"]["rayClusterSpec"]
    cluster["rayVersion"] = "2.60.0"
    if options:
        cluster["authOptions"] = options
    return rayjob


def grow(rayjob: Json) -> Json:
    cluster = make_cluster(rayjob)
    cluster["metadata"]["uid"] = "uid-of-the-cluster"
    return cluster


def list_made(rayjob: Json, secret: Json | None = None) -> list[Json]:
    scene = Scene(rayjob, grow(rayjob), secret=secret)
    actions = step(scene, NOW, lambda: "x4r7b")
    return [action.body for action in actions if isinstance(action, Make)]


def read_variables(container: Json) -> dict[str, Any]:
    named = {each["name"]: each for each in container.get("env", ())}
    return {name: named.get(name) for name in (MODE, TOKEN)}


def test_the_secret_is_made_once_and_before_its_readers() -> None:
    rayjob = submit(mode="token")
    secret, *others = list_made(rayjob)
    assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", "rj-abcde")
    assert secret["stringData"] == {"auth_token": "x4r7b" * 8}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-of-the-cluster"
    assert "Secret" not in {body["kind"] for body in list_made(rayjob, secret)}
    assert others


@pytest.mark.parametrize("options", [{}, {"mode": "disabled"}])
def test_without_token_authentication_there_is_no_token(options: dict[str, str]) -> None:
    rayjob = submit(**options)
    cluster = grow(rayjob)
    assert "Secret" not in {body["kind"] for body in list_made(rayjob)}
    head = make_head(cluster)["spec"]["containers"][0]
    assert read_variables(head) == {MODE: None, TOKEN: None}


def test_all_clients_of_ray_have_the_token() -> None:
    rayjob = submit(mode="token")
    cluster = grow(rayjob)
    (group,) = cluster["spec"]["workerGroupSpecs"]
    pods = [make_head(cluster), make_worker(cluster, group, 0)]
    pods.append(make_job(rayjob, cluster)["spec"]["template"])
    key = {"secretKeyRef": {"name": "rj-abcde", "key": "auth_token"}}
    asking = [
        each
        for pod in pods
        for each in (*pod["spec"].get("initContainers", ()), pod["spec"]["containers"][0])
    ]
    assert len(asking) == 4
    for container in asking:
        assert read_variables(container) == {
            MODE: {"name": MODE, "value": "token"},
            TOKEN: {"name": TOKEN, "valueFrom": key},
        }


def test_variables_of_a_template_are_kept() -> None:
    cluster = grow(submit(mode="token"))
    own = {"name": MODE, "value": "disabled"}
    template = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    template.setdefault("env", []).append(own)
    assert read_variables(make_head(cluster)["spec"]["containers"][0])[MODE] == own


@pytest.mark.parametrize(
    ("secret", "token"),
    [
        (None, ""),
        ({"data": {"auth_token": base64.b64encode(b"x4r7b").decode()}}, "x4r7b"),
        ({"data": {"auth_token": "/"}}, ""),
        ({"data": None}, ""),
    ],
)
def test_a_token_is_read_from_its_secret(secret: Json | None, token: str) -> None:
    assert read_token(secret) == token


@pytest.mark.parametrize(
    ("version", "options", "sentence"),
    [
        ("", {"mode": "token"}, "authOptions.mode is 'token' but RayVersion was not specified."),
        ("2.51.2", {"mode": "token"}, "but minimum Ray version is 2.52.0, got 2.51.2"),
        ("2.60.0", {"mode": "token", "secretName": "own"}, "does not play"),
        ("2.60.0", {"mode": "token"}, ""),
        ("", {"mode": "disabled"}, ""),
    ],
)
def test_a_version_without_tokens_is_refused(
    version: str, options: dict[str, str], sentence: str
) -> None:
    spec = submit(**options)["spec"]
    spec["rayClusterSpec"]["rayVersion"] = version
    found = find_problem(spec)
    assert sentence in found
    assert bool(found) == bool(sentence)
