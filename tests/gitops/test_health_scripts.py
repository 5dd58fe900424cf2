"""The health scripts pass their own cases, in upstream's format, and accept any status."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from readings import ARGO_CD, SETTINGS, Reader, Reading

Body = dict[str, Any]

SCRIPTS = ARGO_CD / "resource_customizations"
ASSEMBLE = ARGO_CD / "assemble.py"
KINDS = {
    "ray.io/RayJob": "ray.io/v1",
    "strandline.dev/CurationAttempt": "strandline.dev/v1alpha1",
    "strandline.dev/CurationPipeline": "strandline.dev/v1alpha1",
}
HEALTHS = {"Progressing", "Suspended", "Healthy", "Degraded"}
# The schema forbids all of these, but a failing script would show an error to all users.
ODD_STATUSES: list[Any] = [
    None,
    {},
    {"conditions": None},
    {"conditions": []},
    {"conditions": {}},
    {"conditions": [{}]},
    {"conditions": [{"type": "Succeeded"}]},
    {"conditions": [{"type": "Succeeded", "status": "Maybe"}]},
    {"conditions": [{"type": "Succeeded", "status": "False"}]},
    {"conditions": [{"type": "Stalled", "status": "True"}]},
    {"conditions": [{"type": "Stalled", "status": "False"}, {"type": "New", "status": "True"}]},
    {"observedGeneration": "1", "conditions": [{"type": "Succeeded", "status": "True"}]},
    {"phase": "Failed"},
    {"phase": 7, "state": ["x"]},
    {"jobDeploymentStatus": "Complete"},
    {"jobDeploymentStatus": "Failed"},
    {"jobDeploymentStatus": "ValidationFailed"},
    {"jobDeploymentStatus": "Dreaming", "jobStatus": "ASLEEP"},
    {"jobDeploymentStatus": "", "jobStatus": ""},
]


def list_cases() -> list[tuple[str, str, str]]:
    """Return kind, file name, and expected health as JSON."""
    return [
        (kind, case["inputPath"], json.dumps(case["healthStatus"]))
        for kind in KINDS
        for case in yaml.safe_load((SCRIPTS / kind / "health_test.yaml").read_text())["tests"]
    ]


def read_script(kind: str) -> str:
    return (SCRIPTS / kind / "health.lua").read_text(encoding="utf-8")


def assemble(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / ASSEMBLE.name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_scripts_have_upstreams_layout() -> None:
    assert {path.parent.relative_to(SCRIPTS).as_posix() for path in SCRIPTS.rglob("*.lua")} == set(
        KINDS
    )
    for kind, api_version in KINDS.items():
        files = {f"testdata/{path.name}" for path in (SCRIPTS / kind / "testdata").iterdir()}
        cases = [name for other, name, _ in list_cases() if other == kind]
        assert sorted(cases) == sorted(files)
        for name in cases:
            body = yaml.safe_load((SCRIPTS / kind / name).read_text())
            assert (body["apiVersion"], body["kind"]) == (api_version, kind.partition("/")[2])


@pytest.fixture(scope="module")
def upstream_readings(reader: Reader) -> dict[str, Reading]:
    """Return the readings of all cases, from a single run."""
    return reader.read(
        {
            f"{kind}/{name}": yaml.safe_load((SCRIPTS / kind / name).read_text())
            for kind, name, _ in list_cases()
        }
    )


@pytest.mark.parametrize(("kind", "name", "expected"), list_cases())
def test_each_case_has_its_expected_health(
    upstream_readings: dict[str, Reading], kind: str, name: str, expected: str
) -> None:
    reading = upstream_readings[f"{kind}/{name}"]
    assert {"status": reading.argo, "message": reading.argo_message} == json.loads(expected)


def test_every_returned_message_has_a_case() -> None:
    """Check that every message in a script is expected by some case."""
    for kind in KINDS:
        spelled = re.findall(r'message = "([^"]+)" \}', read_script(kind))
        told = {json.loads(health)["message"] for other, _, health in list_cases() if other == kind}
        assert spelled
        assert set(spelled) <= told


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_returns_a_health_for_any_status(reader: Reader, kind: str) -> None:
    name = kind.partition("/")[2]
    base = {"apiVersion": KINDS[kind], "kind": name, "metadata": {"name": "x", "generation": 1}}
    bodies: dict[str, Body] = {}
    for number, status in enumerate(ODD_STATUSES):
        seen = {"observedGeneration": 1, **status} if status else status
        bodies[f"{number} as it is"] = {**base, "status": status}
        bodies[f"{number} seen"] = {**base, "status": seen}
    for title, reading in reader.read(bodies).items():
        assert reading.argo in HEALTHS, (title, reading)
        assert reading.argo_message, title


def test_without_the_scripts_there_is_no_health(reader: Reader, tmp_path: Path) -> None:
    """Check an empty configuration: the readings above come from Strandline's scripts."""
    empty = tmp_path / "argocd-cm.yaml"
    empty.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\n")
    for kind, api_version in KINDS.items():
        body = {"apiVersion": api_version, "kind": kind.partition("/")[2], "metadata": {}}
        assert Reader(reader.program, empty).read({"x": body})["x"].argo == ""


def test_a_planted_fault_in_a_script_is_detected(reader: Reader, tmp_path: Path) -> None:
    kind, case = "strandline.dev/CurationPipeline", "testdata/progressing_waits_to_retry.yaml"
    text = SETTINGS.read_text()
    assert 'is("Succeeded", "False")' in text
    damaged = tmp_path / "argocd-cm.yaml"
    damaged.write_text(text.replace('is("Succeeded", "False")', 'is("Succeeded", "Unknown")'))
    body = yaml.safe_load((SCRIPTS / kind / case).read_text())
    assert Reader(reader.program, damaged).read({case: body})[case].argo == "Degraded"


def test_the_settings_contain_the_scripts() -> None:
    settings = yaml.safe_load(SETTINGS.read_text())
    assert settings["metadata"] | {"labels": {}} == {
        "name": "argocd-cm",
        "namespace": "argocd",
        "labels": {},
    }
    prefix = "resource.customizations.health."
    assert settings["data"] == {
        prefix + kind.replace("/", "_"): read_script(kind) for kind in sorted(KINDS)
    }
    assert assemble(ARGO_CD, "--check").returncode == 0


def test_outdated_settings_are_detected_and_rewritten(tmp_path: Path) -> None:
    folder = tmp_path / "argocd"
    shutil.copytree(ARGO_CD, folder)
    with (folder / "resource_customizations" / "ray.io/RayJob/health.lua").open("a") as script:
        script.write("-- one more line\n")
    checked = assemble(folder, "--check")
    assert (checked.returncode, checked.stderr) == (
        1,
        "argocd-cm.yaml is out of date; run: python charts/argocd/assemble.py\n",
    )
    assert assemble(folder).returncode == 0
    assert assemble(folder, "--check").returncode == 0
    assert "-- one more line" in (folder / SETTINGS.name).read_text()
