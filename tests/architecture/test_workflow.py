"""What GitHub would run is what runs here: the same targets, each of them there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from source_tree import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yaml"
MAKE = re.compile(r"^\s*make ([a-z0-9-]+)", re.MULTILINE)


def read_jobs() -> dict[str, Any]:
    return dict(yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"])


def list_targets(text: str) -> list[str]:
    return MAKE.findall(text)


def spell_commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("make test\nmake chart ARGS=-x", ["test", "chart"]), ("  make images | tee x", ["images"])],
)
def test_targets_are_seen(text: str, expected: list[str]) -> None:
    assert list_targets(text) == expected


def test_the_workflow_runs_what_ci_runs() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    here = set(list_targets(run)) - {"cluster", "e2e"}  # tests build the one, kind has the other
    jobs = read_jobs()
    assert set(list_targets(spell_commands(jobs["test"]))) == here
    assert "e2e-all" in list_targets(spell_commands(jobs["kind"]))


def test_every_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in read_jobs().values():
        for target in list_targets(spell_commands(job)):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_job_ends() -> None:
    for name, job in read_jobs().items():
        assert job["timeout-minutes"] <= 120, name


def test_kuberay_is_looked_for_where_its_manifests_put_it() -> None:
    """`config/default` of v1.7.0 installs into `default`; a wait elsewhere never ends well."""
    job = read_jobs()["kind"]
    assert job["env"]["KUBERAY_VERSION"] == "v1.7.0"
    named = re.findall(r"--namespace (\S+)", spell_commands(job))
    assert named
    assert set(named) == {"default"}
