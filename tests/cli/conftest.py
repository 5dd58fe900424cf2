"""Fixtures of the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_project import Call, Project
from strandline.cli.app.commands import program


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Project(tmp_path)


@pytest.fixture
def call() -> Call:
    """`call("run", "pipeline.yaml")` runs the command line in this process."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(program, list(arguments), prog_name="strandline")

    return call


@pytest.fixture
def run(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`run()` makes one attempt at `pipeline.yaml` with driver and engine in this process."""
    # Asked to stop, a driver leaves its process when the grace period is over: this is ours.
    monkeypatch.setattr("strandline.cli.commands.runs.drive._leave_after", lambda *_: None)

    def run(*arguments: str) -> Result:
        return call("drive", "pipeline.yaml", "--engine", "inline", *arguments)

    return run
