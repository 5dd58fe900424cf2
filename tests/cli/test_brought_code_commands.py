"""A pipeline that provides code, on the command line: a run, and messages about mistakes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from archive_builders import write_tar
from cli_project import Call, Project, read_errors
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_api.outcome.exit_codes import ExitCode

STAGE = b"""
import os

from strandline import Stage, Task
import helper


class Mark(Stage):
    def process(self, task: Task) -> Task:
        folder = os.path.basename(os.path.dirname(__file__))
        column = [f"{helper.WORD} {os.getpid()} {folder}"] * task.table.num_rows
        return task.replace(task.table.append_column("mark", [column]))
"""


@pytest.fixture
def archive(project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return an archive that the project uses, with a module that imports a second module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.path / "cache"))
    monkeypatch.setenv("PYTHONPATH", "")  # pytest restores the variable, which a command changes
    files = {"lib/brought.py": STAGE, "lib/helper.py": b"WORD = 'marked'\n"}
    digest = write_tar(project.path / "code.tgz", files)
    found = {"url": str(project.path / "code.tgz"), "sha256": digest, "path": "lib"}
    project.spec["code"] = {"archive": found}
    project.spec["stages"].append({"use": "brought:Mark"})
    project.save()
    return found


def test_workers_of_ray_run_fetched_code(project: Project, archive: dict[str, Any]) -> None:
    done = project.execute("run", "--no-supervise", "--workers", "2")
    assert done.returncode == 0, done.stderr
    rows = [
        json.loads(line) for text in project.list_outputs().values() for line in text.splitlines()
    ]
    marks = [row["mark"].split() for row in rows]
    assert len(marks) == 3
    assert {(word, folder) for word, _, folder in marks} == {("marked", "lib")}
    assert str(os.getpid()) not in {pid for _, pid, _ in marks}
    (kept,) = (project.path / "cache/strandline/code").iterdir()
    assert kept.name == archive["sha256"]
    plan = project.execute("plan", "--json")
    assert json.loads(plan.stdout)["changes"] == []


def test_changed_code_changes_the_pipeline(project: Project, archive: dict[str, Any]) -> None:
    assert project.execute("run", "--no-supervise", "--engine", "inline").returncode == 0
    files = {"lib/brought.py": STAGE, "lib/helper.py": b"WORD = 'other'\n"}
    archive["sha256"] = write_tar(project.path / "code.tgz", files)
    project.save()
    done = project.execute("run", "--no-supervise", "--engine", "inline")
    assert done.returncode == ExitCode.LEDGER_MISMATCH
    assert "code.archive" in done.stderr


def test_a_wrong_digest_is_one_sentence(
    project: Project, archive: dict[str, Any], call: Call
) -> None:
    archive["sha256"] = "0" * 64
    project.save()
    result = call("validate", "pipeline.yaml")
    assert result.exit_code == ExitCode.BAD_SPEC
    assert read_errors(result).startswith("spec.code.archive: the archive at ")


def test_a_missing_module_is_reported_with_the_existing_modules(
    project: Project, archive: dict[str, Any], call: Call
) -> None:
    project.spec["stages"][-1]["use"] = "brougth:Mark"
    project.save()
    result = call("validate", "pipeline.yaml")
    assert result.exit_code == ExitCode.BAD_SPEC
    assert read_errors(result) == (
        "spec.stages[2].use: 'brougth:Mark': the module 'brougth' can't be imported (No module "
        "named 'brougth'); the code in `code` contains: brought, helper"
    )


def test_a_module_with_a_failed_import_is_not_reported_as_missing(
    project: Project, call: Call
) -> None:
    (project.path / "lacking.py").write_text("import nowhere_to_be_found\n")
    project.spec["code"] = {"configMap": "mystages"}
    project.spec["stages"].append({"use": "lacking:Mark"})
    project.save()
    said = read_errors(call("validate", "pipeline.yaml"))
    assert said.endswith("can't be imported (No module named 'nowhere_to_be_found')")
    project.spec["stages"][-1]["use"] = "missing:Mark"
    project.save()
    said = read_errors(call("validate", "pipeline.yaml"))
    assert said.endswith("the files of ConfigMap 'mystages', or add that folder to PYTHONPATH")


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a container's last message."""
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setattr("strandline.run.supervise.status_server.LAST_MESSAGE", path)
    monkeypatch.setattr(
        "strandline.run.supervise.status_server.leave_message.__defaults__", (path,)
    )
    return path


def fetch(call: Call, code: dict[str, Any], folder: Path) -> Result:
    return call("fetch-code", json.dumps(code), "--into", str(folder))


def test_a_pod_reports_a_failed_download(
    archive: dict[str, Any], call: Call, tmp_path: Path, message: Path
) -> None:
    assert fetch(call, {"archive": archive}, tmp_path / "fetched").exit_code == 0
    assert (tmp_path / "fetched/archive/lib/brought.py").exists()
    assert message.read_text() == ""
    wrong = {"archive": archive | {"sha256": "0" * 64}}
    result = fetch(call, wrong, tmp_path / "other")
    assert result.exit_code == ExitCode.BAD_SPEC
    outcome = find_outcome_line(message.read_text())
    assert outcome is not None
    assert outcome.exit_code == ExitCode.BAD_SPEC
    assert outcome.message == read_errors(result)
    assert outcome.message.startswith("spec.code.archive: ")


def test_the_description_of_code_is_validated(call: Call, tmp_path: Path, message: Path) -> None:
    result = fetch(call, {"packages": ["--pre"]}, tmp_path)
    assert result.exit_code == ExitCode.BAD_SPEC
    assert read_errors(result).startswith("spec.code.packages[0]: must be a name and its one")
    assert read_errors(call("fetch-code", "{", "--into", str(tmp_path))) == "spec.code: is not JSON"
    assert fetch(call, {"ofLater": {"a": 1}}, tmp_path).exit_code == 0
