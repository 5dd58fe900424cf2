"""Unrecorded features are rejected with a sentence that names the feature."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kuberay_standin.objects import Json
from kuberay_standin.rayjobs.refusals import find_problem

SPEC: Json = json.loads(
    (Path(__file__).parent / "s-k-success-made.json").read_text(encoding="utf-8")
)["submitted"]["spec"]
HEAD = "rayClusterSpec/headGroupSpec"
CONTAINER = f"{HEAD}/template/spec/containers/0"
GROUP = "rayClusterSpec/workerGroupSpecs/0"


def test_the_recorded_rayjob_is_accepted() -> None:
    assert "" == find_problem(SPEC)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("submissionMode", "InteractiveMode", "plays K8sJobMode only, not InteractiveMode"),
        ("backoffLimit", 1, "does not run a RayJob again"),
        ("runtimeEnvYAML", "pip: []", "does not play spec.runtimeEnvYAML"),
        ("rayClusterSpec/enableInTreeAutoscaling", True, "rayClusterSpec.enableInTreeAutoscaling"),
        (f"{HEAD}/headService", {"metadata": {}}, "does not play headGroupSpec.headService"),
        (f"{CONTAINER}/command", ["ray"], "headGroupSpec with a command of its own"),
        (f"{CONTAINER}/ports", [{"name": "mine", "containerPort": 1}], "none is named dashboard"),
        (f"{GROUP}/numOfHosts", 2, "workerGroupSpecs[w].numOfHosts above 1"),
        (f"{GROUP}/idleTimeoutSeconds", 9, "workerGroupSpecs[w].idleTimeoutSeconds"),
        (f"{GROUP}/template/spec/containers/0/args", ["x"], "workerGroupSpecs[w] with a args"),
        ("rayClusterSpec", None, "needs spec.rayClusterSpec"),
    ],
)
def test_unrecorded_features_are_rejected(place: str, value: object, sentence: str) -> None:
    assert sentence in find_problem(change(place, value))


def test_suspending_needs_shutdown() -> None:
    spec = {**SPEC, "suspend": True}
    assert "" == find_problem(spec)
    assert "not allowed to be suspended" in find_problem(
        {**spec, "shutdownAfterJobFinishes": False}
    )


def test_ports_may_be_left_to_ray() -> None:
    assert "" == find_problem(change(f"{CONTAINER}/ports", []))


def change(place: str, value: object) -> Json:
    spec = copy.deepcopy(SPEC)
    *way, last = place.split("/")
    found: Any = spec
    for part in way:
        found = found[int(part)] if isinstance(found, list) else found[part]
    found[last] = value
    return spec
