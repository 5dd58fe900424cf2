"""What GitHub would run is what runs here: the same targets, each of them there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from changed_jobs import JOBS, read_groups
from source_tree import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
USES = re.compile(r"^\s*(?:- )?uses: (.+)$", re.MULTILINE)
PYTHON = re.compile(r"Python :: (3\.\d+)")
GROUP = re.compile(r"make group G=([a-z]+)")
MAKE = re.compile(r"^\s*(?:step )?make ([a-z][a-z0-9-]*)", re.MULTILINE)


def read_workflow(name: str) -> dict[str, Any]:
    path = ROOT / ".github" / "workflows" / f"{name}.yaml"
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def read_jobs(name: str = "ci") -> dict[str, Any]:
    return dict(read_workflow(name)["jobs"])


def find_movable(text: str) -> list[str]:
    """Actions that somebody else could change under their name."""
    return [used for used in USES.findall(text) if not PINNED.fullmatch(used)]


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


def list_groups(text: str) -> list[str]:
    return GROUP.findall(text)


def test_the_workflow_runs_what_ci_runs() -> None:
    """The same targets, in jobs of their own; all tests but those with a target, in groups."""
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    here = set(list_targets(run)) - {"test", "e2e"}  # of the one there are groups, of the other all
    jobs = read_jobs()
    commands = "\n".join(spell_commands(job) for job in jobs.values())
    assert here | {"check", "group", "e2e-all", "lowest", "wheel"} <= set(list_targets(commands))
    assert sorted(list_groups(commands)) == sorted(read_groups().keys() - {"chart"})
    assert {"chart", "gitops"} <= set(list_targets(spell_commands(jobs["chart"])))


def test_a_change_is_asked_which_jobs_it_needs() -> None:
    jobs = read_jobs()
    conditional = {name for name, job in jobs.items() if job.get("needs") == "changes"}
    assert conditional == set(JOBS)
    for name in conditional:
        assert jobs[name]["if"] == f"needs.changes.outputs.{name} == 'true'"
    assert jobs["changes"]["outputs"] == {
        name: f"${{{{ steps.choose.outputs.{name} }}}}" for name in JOBS
    }
    # Lint is for every change; a branch is protected by one job, which waits for all others.
    assert "needs" not in jobs["lint"]
    assert set(jobs["all"]["needs"]) == jobs.keys() - {"all"}
    assert jobs["all"]["if"] == "always()"


def test_what_has_the_servers_is_not_skipped_where_they_are_missing() -> None:
    """With CI=true a test that lacks what it needs fails, so each job builds what its tests ask."""
    assert read_workflow("ci")["env"]["CI"] == "true"
    jobs = read_jobs()
    assert {"browser", "s3", "gcs", "azure"} <= set(list_targets(spell_commands(jobs["runtime"])))
    assert "cluster" in list_targets(spell_commands(jobs["server"]))


def test_every_python_that_is_named_is_tried() -> None:
    """All tests on those of which the package says so, the wheel on the newest that Ray has too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = PYTHON.findall("\n".join(project["classifiers"]))
    jobs = read_jobs()
    tried = {name: jobs[name]["strategy"]["matrix"]["python"] for name in ("pure", "wheel")}
    assert tried["pure"] == named
    assert tried["wheel"][: len(named)] == named


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
def test_actions_that_can_move_are_seen(used: str, expected: list[str]) -> None:
    assert find_movable(f"    steps:\n      - uses: {used}\n") == expected


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.stem))
def test_actions_are_pinned_and_rights_are_few(path: Path) -> None:
    assert find_movable(path.read_text(encoding="utf-8")) == []
    assert read_workflow(path.stem)["permissions"] in ({}, {"contents": "read"})


def test_kuberay_is_looked_for_where_its_manifests_put_it() -> None:
    """`config/default` of v1.7.0 installs into `default`; a wait elsewhere never ends well."""
    job = read_jobs()["node"]
    assert job["env"]["KUBERAY_VERSION"] == "v1.7.0"
    named = re.findall(r"--namespace (\S+)", spell_commands(job))
    assert named
    assert set(named) == {"default"}
