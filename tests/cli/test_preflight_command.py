"""The check of a pipeline in a Job, before a Ray cluster is created, has the driver's messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from strandline_api.documents.stored import render_document
from strandline_api.names import STORED_ANNOTATION
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_api.outcome.exit_codes import ExitCode


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a container's last message."""
    path = tmp_path / "termination-log"
    path.touch()
    where = "strandline.run.supervise.status_server.leave_message.__defaults__"
    monkeypatch.setattr(where, (path,))
    return path


def render(project: Project, **fields: Any) -> str:
    """Return the pipeline in the form in which an operator passes it to a driver."""
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus", "annotations": {STORED_ANNOTATION: "true"}},
        "spec": {**project.spec, **fields},
    }
    return render_document(document)


def test_a_runnable_pipeline_leaves_no_message(project: Project, call: Call, message: Path) -> None:
    result = call("preflight", render(project))
    assert (result.exit_code, result.output, message.read_text()) == (0, "", "")


def test_a_field_of_another_version_is_accepted(
    project: Project, call: Call, message: Path
) -> None:
    assert call("preflight", render(project, later="word")).exit_code == 0
    assert message.read_text() == ""


BROKEN: list[dict[str, Any]] = [
    {"use": "sample-lines", "with": {"colour": 3}},
    {"use": "no-such-stage"},
    {"use": "no_such_module:Stage"},
]


@pytest.mark.parametrize("stage", BROKEN)
def test_preflight_and_validate_report_the_same_messages(
    project: Project, call: Call, message: Path, stage: dict[str, Any]
) -> None:
    project.spec["stages"] = [*project.spec["stages"], stage]
    project.save()
    expected = read_errors(call("validate", "pipeline.yaml"))
    result = call("preflight", render(project))
    outcome = find_outcome_line(message.read_text())
    assert result.exit_code == ExitCode.BAD_SPEC
    assert outcome is not None
    assert (outcome.exit_code, outcome.message) == (ExitCode.BAD_SPEC, expected)
    assert f"stages[{len(project.spec['stages']) - 1}]" in expected


def test_several_problems_are_reported_at_once(project: Project, call: Call, message: Path) -> None:
    project.spec["stages"] = BROKEN
    call("preflight", render(project))
    outcome = find_outcome_line(message.read_text())
    assert outcome is not None
    assert all(f"stages[{index}]" in outcome.message for index in range(len(BROKEN)))


def test_a_missing_package_is_reported(project: Project, call: Call, message: Path) -> None:
    project.spec["storage"] = {"output": {"url": "nowhere://bucket/out"}}
    result = call("preflight", render(project))
    assert result.exit_code == ExitCode.BAD_SPEC
    outcome = find_outcome_line(message.read_text())
    assert outcome is not None
    assert "storage.output.url" in outcome.message


def test_nothing_is_left_behind(
    project: Project, call: Call, message: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del message
    folder = project.path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    call("preflight", render(project))
    call("preflight", "{")
    assert list(folder.iterdir()) == []
