"""When and where progress is shown, according to a clock of the test."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from strandline.cli.views.reporter import JsonReporter, Reporter, TerminalReporter, create_reporter
from strandline.cli.views.summary import Details, WrittenFiles, describe_outcome
from strandline.engine.core.ports import RunProgress
from strandline.ledger.records.entries import FailureRecord, QuarantinedSource, Standing
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.failures import group_failures
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def make_progress(listed: int = 5, finished: int = 2) -> RunProgress:
    flow: Any = SimpleNamespace(failed={b"one"}, list_stages=list)
    return RunProgress(flow, listed, 1, finished, True, [])


def test_a_log_gets_a_line_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    reporter = Reporter(clock)
    with reporter.watching("notes"):
        assert reporter.report(make_progress())  # the first shows that the engine has started
        for clock.seconds in (101.0, 104.9):
            assert not reporter.report(make_progress())
        assert capsys.readouterr().err == ""
        clock.seconds = 105.0
        assert reporter.report(make_progress())
        assert not reporter.report(make_progress())
        clock.seconds = 110.0
        assert reporter.report(make_progress(finished=3))
    assert capsys.readouterr().err == (
        "5.0 s: 2 of 5 sources finished, 1 failed, 1 skipped; 0.60/s\n"
        "10 s: 3 of 5 sources finished, 1 failed, 1 skipped; 0.40/s\n"
    )


def test_notes_are_printed_once_and_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    reporter, notes = Reporter(Clock()), ["one"]
    for _ in range(2):
        reporter.report(make_progress()._replace(notes=notes))
    assert capsys.readouterr().err == "one\n"
    notes.append("two")
    reporter.report(make_progress()._replace(notes=notes))
    assert capsys.readouterr().err == "two\n"


def test_an_existing_dashboard_of_ray_is_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(Clock())
    for _ in range(2):
        reporter.report(make_progress()._replace(dashboard="10.0.0.7:8265"))
    assert capsys.readouterr().err == "Ray's dashboard: 10.0.0.7:8265\n"


def test_undue_reports_are_not_computed() -> None:
    clock = Clock()
    reporter = Reporter(clock)
    reporter.report(make_progress())
    untouchable: Any = SimpleNamespace(notes=())
    assert not reporter.report(untouchable)


def test_the_pace_counts_from_the_first_listed_source(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    reporter = Reporter(clock)
    clock.seconds = 150.0
    reporter.report(make_progress(listed=0, finished=0)._replace(skipped=0))
    clock.seconds = 160.0
    reporter.report(make_progress(finished=1))
    assert "; 0.20/s" in capsys.readouterr().err


def test_scripts_get_an_object_every_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    reporter = JsonReporter(clock)
    for clock.seconds in (100.1, 101.0, 101.5, 102.0):
        reporter.report(make_progress())
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.splitlines()]
    assert [line["seconds"] for line in lines] == [1.0, 2.0]
    assert captured.err == ""


def test_a_terminal_shows_a_table_and_leaves_nothing_behind() -> None:
    clock, out = Clock(), io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system=None)
    reporter = TerminalReporter(console, clock)
    with reporter.watching("notes"):
        assert "starting" in out.getvalue()  # shown before the engine's first report
        clock.seconds = 101.0
        reporter.report(make_progress())
        shown = out.getvalue()
        reporter.announce("stopping: [not markup]")
    assert "2 of 5 sources finished, 1 failed, 1 skipped" in shown
    assert "stopping: [not markup]" in out.getvalue()
    assert out.getvalue().rstrip("\n").endswith("\x1b[2K")  # erases the last line of the table


def test_the_reporter_depends_on_its_output() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert type(create_reporter(is_json=True, stderr=Terminal())) is JsonReporter
    assert type(create_reporter(is_json=False, stderr=Terminal())) is TerminalReporter
    assert type(create_reporter(is_json=False, stderr=io.StringIO())) is Reporter


@pytest.mark.parametrize(
    ("files", "size", "is_packable", "is_advised"),
    [
        (3000, 3000 * 2100, True, True),
        (3000, 3000 * 2100, False, False),  # packed already, or cannot be packed
        (999, 999, True, False),
        (3000, 3000 * 100_000, True, False),
    ],
)
def test_a_summary_suggests_settings_for_fewer_files(
    files: int, size: int, is_packable: bool, is_advised: bool
) -> None:
    outcome = AttemptResult(ExitCode.COMPLETE, "complete", attempt=1, output="/data/out")
    details = Details(WrittenFiles(files, size), is_packable=is_packable)
    hints = [line for line in describe_outcome(outcome, details) if line.startswith("hint: ")]
    advice = (
        "hint: 3,000 files of 2.1 kB on average; `buckets: 32` in the source packs small sources "
        "together (and starts the run over)"
    )
    assert hints == ([advice] if is_advised else [])


@pytest.mark.parametrize(
    ("finished", "written", "is_told"), [(6, 0, True), (6, 1, False), (0, 0, False)]
)
def test_a_run_without_output_names_the_dropping_stages(
    finished: int, written: int, is_told: bool
) -> None:
    counts = {
        "files": StageCounts(tasks_out=6),
        "quality": StageCounts(6, 1, 5, 0, 6, written, 0.1, {"dropped: repeated lines": 5}),
        "language": StageCounts(1, written, 1 - written, 0, 1, written, 0.1),
        "jsonl": StageCounts(written, written, 0, 0, written, written, 0.1),
    }
    standing = Standing(finished, 0, 0, 0, 0)
    outcome = AttemptResult(ExitCode.COMPLETE, "complete", 1, standing=standing, counts=counts)
    hints = [line for line in describe_outcome(outcome, Details()) if line.startswith("hint: ")]
    told = "hint: nothing was written; quality dropped most rows, and its counts above show why"
    assert hints == ([told] if is_told else [])


def test_the_whole_summary_has_the_expected_text() -> None:
    counts = {
        "files": StageCounts(tasks_out=1500),
        "read": StageCounts(1400, 1300, 99, 1, 1400, 90_000, 12.34, {"dropped: not utf-8": 1234}),
    }
    raised = "ValueError: no {} (moody.py:10)"
    failures = [
        *(FailureRecord(f"key{n}\x1b", 3, "read", raised.format(n), 1) for n in range(11)),
        FailureRecord("key11", 3, "read", "KeyError: 'a' (moody.py:20)", 1),
    ]
    outcome = AttemptResult(
        ExitCode.SOURCES_FAILED,
        "12 of 1500 sources failed; another attempt would retry them",
        attempt=3,
        standing=Standing(1388, 100, 12, 0, 2),
        counts=counts,
        output="/data/out",
        seconds=65.0,
        failures=tuple(failures),
        failure_groups=group_failures(failures),
        incidents=("a worker of read died",),
    )
    quarantined = [
        QuarantinedSource("deep/one", b"", 3, "OOMKilled", "", "a process died over it", 3),
        QuarantinedSource("deep/two", b"", 3, "ApplicationError", "read", "no", 3),
    ]
    groups = group_failures(
        FailureRecord(entry.key, 3, where, entry.message, 3)
        for entry, where in zip(quarantined, ("OOMKilled", "ApplicationError: read"), strict=True)
    )
    assert describe_outcome(outcome, Details(WrittenFiles(1, 2000), quarantined, groups)) == [
        "12 of 1500 sources failed; another attempt would retry them (attempt 3, 1 min 5 s, 100 "
        "skipped, 2 no longer listed)",
        "",
        "in this attempt:",
        "stage     in    out  filtered  failed  rows in  rows out  seconds",
        "files      0  1,500         0       0        0         0      0.0",
        "read   1,400  1,300        99       1    1,400    90,000     12.3",
        "",
        "read  dropped: not utf-8  1,234",
        "",
        "12 sources failed:",
        "  11 × read: ValueError (moody.py:10)",
        "      such as key0\\x1b: ValueError: no 0 (moody.py:10)",
        "  key11: read: KeyError: 'a' (moody.py:20)",
        "  all of them: `strandline failures FILE`",
        "quarantined now:",
        "  deep/one: OOMKilled: a process died over it",
        "  deep/two: ApplicationError: read: no",
        "incident: a worker of read died",
        "output: /data/out (1 file, 2.0 kB)",
    ]


def test_a_rule_that_dropped_everything_is_reported_at_the_end() -> None:
    counts = {"quality": StageCounts(1, 1, 0, 0, 12, 0, 0.1, {"dropped: short words": 12})}
    outcome = AttemptResult(ExitCode.COMPLETE, "complete", 1, counts=counts)
    told = (
        "hint: one rule of quality dropped all 12 rows: short words; check that the rule suits "
        "these rows"
    )
    assert told in describe_outcome(outcome, Details())
