"""Fixtures for the tests of the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_project import Call, Project
from cluster_objects import end_pod, make_attempt_object, make_config, make_pipeline_object
from command_server import execute_strandline
from fake_kubectl import JOB, PIPELINE, FakeKubectl
from strandline.cli.app.commands import program
from strandline.cli.commands.cluster.plugin import plugin


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project, whose folder is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Project(tmp_path)


@pytest.fixture
def call() -> Call:
    """Return a function that runs a command in this process, or as a fork if drivers start."""

    def call(*arguments: str) -> Result:
        if arguments[:1] in {("run",), ("retry",)}:
            return run_fork(*arguments)
        return CliRunner().invoke(program, list(arguments), prog_name="strandline")

    return call


def run_fork(*arguments: str) -> Result:
    """Run a `strandline` command as a fork. Its drivers are forks, too."""
    done = execute_strandline(*arguments)
    out, err = done.stdout.encode(), done.stderr.encode()
    return Result(CliRunner(), out, err, out + err, None, done.returncode, None)


@pytest.fixture
def run(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that makes one attempt, with driver and engine in this process."""
    # At the end of the grace period, a stopped driver exits its process, which would end the tests.
    for name in ("_leave_after", "_leave_at_once"):
        monkeypatch.setattr(f"strandline.cli.commands.runs.drive.{name}", lambda *_: None)

    def run(*arguments: str) -> Result:
        return call("drive", "pipeline.yaml", "--engine", "inline", *arguments)

    return run


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """Return a cluster whose first attempt has ended. Commands on the cluster print `verified`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    kubectl = FakeKubectl(folder)
    kubectl.answer("patch")
    kubectl.answer("delete")
    kubectl.answer("create", {"metadata": {"name": JOB}})
    kubectl.answer("logs", "verified\n")
    kubectl.answer("get pods", {"items": []})
    kubectl.answer("get pods|job-name", {"items": [end_pod(JOB)]})
    claim = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    kubectl.answer("get persistentvolumeclaim corpus-ledger", claim)
    kubectl.answer("get configmap corpus-1", make_config())
    kubectl.answer("get curationattempts.strandline.dev corpus-1", make_attempt_object())
    kubectl.answer(PIPELINE, make_pipeline_object())
    return kubectl


@pytest.fixture
def ask() -> Call:
    """Return a function that runs the plugin in this process: `ask("verify", "corpus")`."""

    def ask(*words: str) -> Result:
        return CliRunner().invoke(plugin, list(words), prog_name="kubectl strandline")

    return ask
