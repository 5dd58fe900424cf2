"""A manifest from a cluster: fields of another version are ignored, and reported once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.manifest.manifest import read_manifest
from strandline_api.names import STORED_ANNOTATION
from strandline_api.objects.removed_engine import ENGINE_REMOVED
from strandline_api.outcome.exit_codes import ExitCode

SAID = "this image does not support, and ignores, spec.sink.later, spec.tomorrow"


@pytest.fixture
def grown(project: Project) -> Project:
    """Return a pipeline with two fields of a later release."""
    project.spec["tomorrow"] = {"colour": "blue"}
    project.spec["sink"]["later"] = True
    project.save()
    return project


@pytest.fixture
def stored(grown: Project) -> Project:
    """Return the pipeline of `grown` in the form that a driver on a cluster gets."""
    grown.document["metadata"]["annotations"] = {STORED_ANNOTATION: "true"}
    grown.save()
    return grown


@pytest.mark.parametrize("command", ["run", "plan", "drain", "attempts", "verify"])
def test_a_local_file_with_unknown_fields_is_refused(
    grown: Project, call: Call, command: str
) -> None:
    refused = call(command, "pipeline.yaml")
    assert refused.exit_code == ExitCode.BAD_SPEC
    assert [line.partition(": unknown")[0] for line in read_errors(refused).splitlines()] == [
        "spec.sink.later",
        "spec.tomorrow",
    ]
    assert not grown.folder.exists()


def test_a_stored_manifest_runs_and_reports_ignored_fields_once(stored: Project) -> None:
    done = stored.execute("run", "--no-supervise", "--engine", "inline")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID) == 1
    assert len(stored.list_outputs()) == 3


@pytest.mark.parametrize("command", ["plan", "describe", "drain", "attempts", "verify"])
def test_every_other_command_accepts_a_stored_manifest(
    stored: Project, run: Call, call: Call, command: str
) -> None:
    assert run().exit_code == 0
    done = call(command, "pipeline.yaml")
    assert done.exit_code == 0, done.output


def test_validate_refuses_a_stored_manifest_with_unknown_fields(
    stored: Project, call: Call
) -> None:
    refused = call("validate", "pipeline.yaml", "--json")
    assert refused.exit_code == ExitCode.BAD_SPEC
    paths = [each["path"] for each in json.loads(refused.stdout)["problems"]]
    assert paths == ["spec.sink.later", "spec.tomorrow"]


def test_unknown_fields_on_the_command_line_are_always_refused(stored: Project, call: Call) -> None:
    refused = call("plan", "pipeline.yaml", "--set", "sink.bachSize=4")
    assert read_errors(refused) == (
        "spec.sink.bachSize: unknown field 'bachSize'; did you mean 'batchSize'?"
    )
    assert call("plan", "pipeline.yaml", "--set", "sink.batchSize=4").exit_code == 0


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("engine", "dask", "spec.engine: must be 'ray', not 'dask'"),
        ("engine", "ray-data", f"spec.engine: {ENGINE_REMOVED}"),
        (
            "onChange",
            "Ask",
            "spec.onChange: must be 'Fail', 'Restart', 'Continue' or 'Redo', not 'Ask'",
        ),
    ],
)
def test_an_unknown_word_in_a_known_field_is_refused(
    stored: Project, call: Call, path: str, value: Any, said: str
) -> None:
    stored.spec[path] = value
    stored.save()
    refused = call("run", "pipeline.yaml", "--no-supervise", "--engine", "inline")
    assert (refused.exit_code, read_errors(refused)) == (ExitCode.BAD_SPEC, said)


def test_unknown_parameters_of_a_stage_are_refused(stored: Project, call: Call) -> None:
    stored.spec["sink"]["with"] = {"tomorrow": 1}
    stored.save()
    refused = call("run", "pipeline.yaml", "--no-supervise", "--engine", "inline")
    assert refused.exit_code == ExitCode.BAD_SPEC
    assert "spec.sink.with.tomorrow: unknown field" in refused.output


def test_ignored_fields_do_not_change_the_fingerprint(stored: Project) -> None:
    path = stored.path / "pipeline.yaml"
    before = read_manifest(path)
    assert before.unknown == ("spec.sink.later", "spec.tomorrow")
    del stored.spec["tomorrow"], stored.spec["sink"]["later"]
    stored.save()
    after = read_manifest(path)
    assert after.unknown == ()
    assert after.plan.fingerprint == before.plan.fingerprint


def test_a_cause_of_a_newer_operator_does_not_end_the_run(stored: Project) -> None:
    words = ("--no-supervise", "--engine", "inline", "--after", "Enchanted")
    assert stored.execute("run", *words).returncode == 0


def test_an_unknown_cause_on_the_command_line_is_refused(project: Project, call: Call) -> None:
    refused = call("run", "pipeline.yaml", "--no-supervise", "--after", "Preemptd")
    assert refused.exit_code == ExitCode.BAD_SPEC
    assert "must be one of Preempted, Evicted" in refused.output
    assert not project.folder.exists()


def test_only_a_manual_run_limits_the_wait_for_workers(
    project: Project, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster, the operator ends attempts that do not start, so a driver waits on."""
    waits: list[float | None] = []

    def attempt(config: AttemptConfig, *_: object) -> AttemptResult:
        waits.append(config.wait)
        return AttemptResult(ExitCode.COMPLETE, "over")

    monkeypatch.setattr("strandline.cli.commands.runs.drive.run_attempt", attempt)
    assert run().exit_code == 0
    project.spec["deadlines"] = {"preRunning": "10m"}
    project.save()
    assert run().exit_code == 0
    project.document["metadata"]["annotations"] = {STORED_ANNOTATION: "true"}
    project.save()
    assert run().exit_code == 0
    assert waits == [None, 600.0, None]
