"""`strandline run`: its messages, its files, and how it resumes after a stop."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from cli_project import Call, Project, drop_progress, read_errors
from strandline.cli.commands.runs.outcome_details import read_details
from strandline.cli.views.summary import Details
from strandline.engine.core.ports import RunProgress
from strandline.ledger.records.entries import Change, FailureRecord
from strandline.ledger.store.rows import list_failures
from strandline.ledger.store.store import Store
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline_api.objects.removed_engine import ENGINE_REMOVED
from strandline_api.outcome.exit_codes import ExitCode


def read_json(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_run_reports_its_counts_and_output_place(project: Project, run: Call) -> None:
    result = run()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("complete: all 3 sources are finished (attempt 1, ")
    counts = {line.split()[0]: line.split()[1:-1] for line in lines[3:7]}
    assert counts == {
        "files": ["0", "3", "0", "0", "0", "0"],
        "read-files": ["3", "3", "0", "0", "3", "3"],
        "parse-documents": ["3", "3", "0", "0", "3", "3"],
        "jsonl": ["3", "3", "0", "0", "3", "3"],
    }
    size = sum(map(len, project.list_outputs().values()))
    assert lines[-1] == f"output: {project.folder / 'output'} (3 files, {size} bytes)"
    assert drop_progress(result.stderr) == ""


def test_the_file_names_its_engine_and_the_command_line_another(
    project: Project, run: Call, call: Call
) -> None:
    project.spec["engine"] = "ray"
    project.spec["stages"][0]["resources"] = {"custom": {"nvdec": 1}}
    project.save()
    refused = call("drive", "pipeline.yaml", "--workers", "1")
    assert refused.exit_code == ExitCode.BAD_SPEC
    assert "nvdec" in refused.stderr
    assert run().exit_code == 0  # with the inline engine


def test_the_removed_engine_is_refused_in_one_sentence(project: Project, call: Call) -> None:
    named = call("run", "pipeline.yaml", "--engine", "ray-data")
    assert named.exit_code == ExitCode.BAD_SPEC
    assert read_errors(named) == (
        f"Invalid value for '--engine': {ENGINE_REMOVED}; see `strandline run --help`"
    )
    project.spec["engine"] = "ray-data"
    project.save()
    for command in ("run", "drive", "validate", "plan"):
        refused = call(command, "pipeline.yaml")
        assert refused.exit_code == ExitCode.BAD_SPEC
        assert read_errors(refused) == f"spec.engine: {ENGINE_REMOVED}"
    assert not project.folder.exists()


def test_a_complete_run_does_no_more_work(project: Project, run: Call) -> None:
    run()
    kept = project.list_outputs()
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing left to do: all 3 sources are finished (attempt 2")
    assert project.list_outputs() == kept


def test_only_new_sources_are_processed(project: Project, run: Call) -> None:
    run()
    (project.path / "in/new.txt").write_text("A new note.\n")
    result = run()
    assert "3 skipped" in result.stdout.splitlines()[0]
    assert len(project.list_outputs()) == 4


def test_counters_and_failures_are_shown_by_stage(project: Project, run: Call) -> None:
    project.add_stage(
        "def process(self, task):\n"
        "    self.count('seen: notes')\n"
        "    if '1' in task.key:\n"
        "        return FailedTask('odd\\nnote')\n"
        "    return None if '2' in task.key else task"
    )
    result = run()
    assert result.exit_code == 3
    rows = [line.split()[:5] for line in result.stdout.splitlines()]
    assert ["own", "3", "1", "1", "1"] in rows
    assert "own  seen: notes  3\n" in result.stdout
    tail = "1 source failed:\n  in/1.txt: own: odd\\nnote\noutput: "
    assert tail in result.stdout


def test_failures_are_shown_by_reason(project: Project, run: Call) -> None:
    for number in range(9):
        (project.path / f"in/more{number}.txt").write_text("x")
    project.add_stage("def process(self, task):\n    raise ValueError(task.lineage.key)")
    lines = run().stdout.splitlines()
    at = lines.index("12 sources failed:")
    assert re.fullmatch(r"  12 × own: ValueError \(own_stage_\d+\.py:6\)", lines[at + 1])
    assert re.fullmatch(r"      such as in/(.*): ValueError: in/\1 \(own.*\)", lines[at + 2])
    assert lines[at + 3] == "  all of them: `strandline failures FILE`"


def test_json_ends_in_the_outcome_with_stages_and_failures(project: Project, run: Call) -> None:
    project.add_stage(
        "def process(self, task):\n    return FailedTask('no') if '1' in task.key else task"
    )
    result = run("--json")
    *progress, outcome = read_json(result)
    assert all(each["event"] == "progress" for each in progress)
    assert outcome["event"] == "outcome"
    assert (outcome["outcome"], outcome["exitCode"]) == ("SOURCES_FAILED", result.exit_code)
    assert outcome["sources"] == {
        "total": 3,
        "finished": 2,
        "failed": 1,
        "quarantined": 0,
        "skipped": 0,
        "unfinished": 0,
    }
    stages = outcome["stages"]
    assert isinstance(stages, list)
    assert [stage["name"] for stage in stages] == [
        "files",
        "read-files",
        "parse-documents",
        "own",
        "jsonl",
    ]
    assert stages[3]["failed"] == 1
    assert outcome["failures"] == [{"key": "in/1.txt", "stage": "own", "message": "no"}]
    assert drop_progress(result.stderr) == ""


def test_settings_reach_the_run(project: Project, run: Call) -> None:
    result = run("--set", "source.with.limit=2", "--set", "metadata.name=few")
    assert result.exit_code == 0
    assert "all 2 sources" in result.stdout
    assert (project.path / "strandline-data/default/few/output").is_dir()


def test_the_sink_may_name_the_place(project: Project, run: Call) -> None:
    result = run("--set", "sink.with.path=elsewhere", "--volume", "vault")
    assert result.stdout.splitlines()[-1].startswith(f"output: {project.path}/elsewhere (3 files, ")
    assert len(list((project.path / "elsewhere").rglob("*.jsonl"))) == 3
    assert (project.path / "vault/default/notes/ledger/data.mdb").exists()


def test_a_request_to_stop_ends_the_run_in_order(
    project: Project, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_stage(
        "def process(self, task):\n"
        "    import os, signal\n"
        "    if '1' in task.key:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return task"
    )
    monkeypatch.setattr("os._exit", pytest.fail)
    result = run()
    assert result.exit_code == 75
    assert result.stderr.startswith("stopping: letting work in flight finish; press again")
    assert result.stdout.startswith(
        "interrupted; the next attempt continues with the remaining sources"
    )
    project.spec["stages"].pop()
    project.save()
    assert run("--set", "onChange=Continue").exit_code == 0
    assert len(project.list_outputs()) == 3


def test_a_termination_while_ray_starts_is_an_interruption(
    project: Project, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: object) -> None:
        raise SystemExit(15)

    monkeypatch.setattr("strandline.cli.commands.runs.drive.run_attempt", leave)
    result = run()
    assert result.exit_code == 75
    sentence = "the run was stopped during its start; run it again to continue"
    assert drop_progress(result.stderr) == f"strandline: error: {sentence}\n"
    assert json.loads(run("--json").stdout)["message"] == sentence
    assert not project.folder.exists()


@pytest.mark.usefixtures("project")
def test_a_request_to_stop_works_despite_rays_signal_handler(
    run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(
        _config: AttemptConfig,
        must_stop: Callable[[], bool],
        report: Callable[[RunProgress], None],
    ) -> AttemptResult:
        signal.signal(signal.SIGTERM, lambda *_: pytest.fail("the library's handler"))
        flow: Any = SimpleNamespace(failed=set(), list_stages=list)
        report(RunProgress(flow, 0, 0, 0, False, []))
        signal.raise_signal(signal.SIGTERM)
        return AttemptResult(ExitCode.INTERRUPTED if must_stop() else ExitCode.COMPLETE, "over")

    monkeypatch.setattr("strandline.cli.commands.runs.drive.run_attempt", attempt)
    assert run().exit_code == 75


def test_failures_are_shown_for_one_attempt(project: Project, run: Call) -> None:
    assert run().exit_code == 0
    store = Store(project.folder / "ledger")
    failures = [(bytes([number] * 16), number) for number in (1, 2)]
    records = [(key, FailureRecord(f"key{n}", n, "own", "no", 1)) for key, n in failures]
    store.write(Change(fail=records))
    assert [failure.key for failure in list_failures(store, 2)] == ["key2"]
    assert [failure.key for failure in list_failures(store)] == ["key1", "key2"]
    store.close()
    details = read_details(PipelineFolder(project.folder), 2)
    assert details.written is not None
    assert details.written.files == 3


def test_a_summary_without_a_ledger_is_shorter(project: Project) -> None:
    assert read_details(PipelineFolder(project.folder), 1) == Details()
    assert read_details(None, 1) == Details()


def test_a_run_in_a_job_of_another_ray_needs_nothing_of_that_ray(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens in `ray job submit --working-dir . -- strandline run`."""
    files = {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}  # a file of the other Ray
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps({"runtime_env": files}))
    result = project.execute("run", "--no-supervise", "--workers", "1")
    assert 0 == result.returncode, result.stderr
    assert len(project.list_outputs()) == 3
