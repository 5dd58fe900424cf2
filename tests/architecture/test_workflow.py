"""The GitHub workflows and local commands run the same existing targets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from changed_jobs import read_groups
from source_tree import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
USES = re.compile(r"^\s*(?:- )?uses: (.+)$", re.MULTILINE)
PYTHON = re.compile(r"Python :: (3\.\d+)")
MATRIX = "${{{{ fromJSON(needs.{}.outputs.{}) }}}}"
MAKE = re.compile(r"^\s*(?:step )?make ([a-z][a-z0-9-]*)", re.MULTILINE)


def read_workflow(name: str) -> dict[str, Any]:
    path = ROOT / ".github" / "workflows" / f"{name}.yaml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def read_jobs(name: str = "ci") -> dict[str, Any]:
    return dict(read_workflow(name)["jobs"])


def find_movable(text: str) -> list[str]:
    """Return actions whose reference, such as a tag, another person could move."""
    return [used for used in USES.findall(text) if not PINNED.fullmatch(used)]


def list_targets(text: str) -> list[str]:
    return MAKE.findall(text)


def spell_commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("make test\nmake chart ARGS=-x", ["test", "chart"]), ("  make images | tee x", ["images"])],
)
def test_targets_are_found(text: str, expected: list[str]) -> None:
    assert list_targets(text) == expected


def test_the_workflow_runs_the_first_tier_and_the_selected_groups() -> None:
    """`.ci/run` and the GitHub workflow select groups by the same rules."""
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "make --silent test\n" in run
    assert "run_groups.py --changed" in run
    jobs = read_jobs()
    assert list_targets(spell_commands(jobs["first"])) == ["test"]
    assert "tests/running/changed_jobs.py" in spell_commands(jobs["changes"])
    assert jobs["group"]["strategy"]["matrix"]["group"] == MATRIX.format("changes", "groups")
    assert "make group G=${{ matrix.group }}" in spell_commands(jobs["group"])
    assert {"images", "e2e-all"} <= set(list_targets(spell_commands(jobs["node"])))
    assert list_targets(spell_commands(jobs["wheel"])) == ["wheel"]


def test_each_night_runs_the_third_tier() -> None:
    jobs = read_jobs("nightly")
    assert jobs["full"]["strategy"]["matrix"]["group"] == MATRIX.format("groups", "full")
    assert "make group G=${{ matrix.group }}" in spell_commands(jobs["full"])


def test_a_change_selects_the_jobs_that_it_needs() -> None:
    jobs = read_jobs()
    assert jobs["changes"]["outputs"] == {
        name: f"${{{{ steps.choose.outputs.{name} }}}}" for name in ("groups", "node", "wheel")
    }
    assert jobs["group"]["if"] == "needs.changes.outputs.groups != '[]'"
    for name in ("node", "wheel"):
        assert jobs[name]["if"] == f"needs.changes.outputs.{name} == 'true'"
    # The first tier runs for every change. Branch protection requires one job, which needs all
    # other jobs.
    assert "needs" not in jobs["first"]
    assert set(jobs["all"]["needs"]) == jobs.keys() - {"all"}
    assert jobs["all"]["if"] == "always()"


def test_a_missing_server_is_a_failure() -> None:
    """With CI=true, a test without its server fails, and each group builds its servers."""
    assert read_workflow("ci")["env"]["CI"] == "true"
    groups = read_groups()
    assert groups["stores"].builds == ("s3", "gcs", "azure")
    assert groups["server"].builds == ("cluster",)


def test_every_declared_python_version_is_tested() -> None:
    """The first tier runs on each Python of the classifiers, the wheel also on a newer version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = PYTHON.findall("\n".join(project["classifiers"]))
    jobs = read_jobs()
    tried = {name: jobs[name]["strategy"]["matrix"]["python"] for name in ("first", "wheel")}
    assert tried["first"] == named
    assert tried["wheel"][: len(named)] == named


def test_every_group_consists_of_existing_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for group in read_groups().values():
        for target in (*group.words[:1], *group.builds):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_every_target_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for job in read_jobs(path.stem).values():
        for target in list_targets(spell_commands(job)):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_every_job_ends(path: Path) -> None:
    for name, job in read_jobs(path.stem).items():
        assert job["timeout-minutes"] <= 120, name


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (f"actions/checkout@{'0a' * 20} # v7.0.1", []),
        ("actions/checkout@v7", ["actions/checkout@v7"]),
        (f"actions/checkout@{'0a' * 20}", [f"actions/checkout@{'0a' * 20}"]),
    ],
)
def test_unpinned_actions_are_found(used: str, expected: list[str]) -> None:
    assert find_movable(f"    steps:\n      - uses: {used}\n") == expected


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_actions_are_pinned_and_permissions_are_minimal(path: Path) -> None:
    assert find_movable(path.read_text(encoding="utf-8")) == []
    assert read_workflow(path.stem)["permissions"] in ({}, {"contents": "read"})


def test_workflows_wait_for_kuberay_in_the_namespace_of_its_manifests() -> None:
    """`config/default` of v1.7.0 installs into `default`; a wait elsewhere would time out."""
    job = read_jobs()["node"]
    assert job["env"]["KUBERAY_VERSION"] == "v1.7.0"
    named = re.findall(r"--namespace (\S+)", spell_commands(job))
    assert named
    assert set(named) == {"default"}
