"""When progress is shown, and where: the clock is the test's."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from strandline.cli.views.reporter import JsonReporter, Reporter, TerminalReporter, create_reporter
from strandline.cli.views.summary import Details, Written, describe_outcome
from strandline.engine.core.ports import Progress
from strandline.ledger.entries import FailureRecord, Parked, Standing
from strandline.plan.receipt import Counts
from strandline.run.attempt.outcome import Outcome
from strandline_api.outcome.exit_codes import ExitCode


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def make_progress(listed: int = 5, finished: int = 2) -> Progress:
    flow: Any = SimpleNamespace(failed={b"one"}, queues=[])
    return Progress(flow, listed, 1, finished, True, [])


def test_a_log_gets_a_line_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    reporter = Reporter(clock)
    with reporter.watching("notes"):
        assert reporter.report(make_progress())  # the first one tells that the engine is up
        for clock.seconds in (101.0, 104.9):
            assert not reporter.report(make_progress())
        assert capsys.readouterr().err == ""
        clock.seconds = 105.0
        assert reporter.report(make_progress())
        assert not reporter.report(make_progress())
        clock.seconds = 110.0
        assert reporter.report(make_progress(finished=3))
    assert capsys.readouterr().err == (
        "5.0 s: 2 of 5 sources finished, 1 failed, 1 skipped; 0.60/s, about 1.7 s left\n"
        "10 s: 3 of 5 sources finished, 1 failed, 1 skipped; 0.40/s\n"
    )


def test_what_is_noted_is_told_once_and_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    reporter, notes = Reporter(Clock()), ["one"]
    for _ in range(2):
        reporter.report(make_progress()._replace(notes=notes))
    assert capsys.readouterr().err == "one\n"
    notes.append("two")
    reporter.report(make_progress()._replace(notes=notes))
    assert capsys.readouterr().err == "two\n"


def test_rays_dashboard_is_named_once_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(Clock())
    for _ in range(2):
        reporter.report(make_progress()._replace(dashboard="10.0.0.7:8265"))
    assert capsys.readouterr().err == "Ray's dashboard: 10.0.0.7:8265\n"


def test_what_is_not_due_is_not_even_looked_at() -> None:
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
        clock.seconds = 101.0
        reporter.report(make_progress())
        shown = out.getvalue()
        reporter.say("stopping: [not markup]")
    assert "2 of 5 sources finished, 1 failed, 1 skipped" in shown
    assert "stopping: [not markup]" in out.getvalue()
    assert out.getvalue().rstrip("\n").endswith("\x1b[2K")  # the table's last line is wiped


def test_the_reporter_fits_where_it_writes_to() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert type(create_reporter(is_json=True, stderr=Terminal())) is JsonReporter
    assert type(create_reporter(is_json=False, stderr=Terminal())) is TerminalReporter
    assert type(create_reporter(is_json=False, stderr=io.StringIO())) is Reporter


def test_the_summary_as_a_whole() -> None:
    counts = {
        "files": Counts(tasks_out=1500),
        "read": Counts(1400, 1300, 99, 1, 1400, 90_000, 12.34, {"dropped: not utf-8": 1234}),
    }
    outcome = Outcome(
        ExitCode.SOURCES_FAILED,
        "12 of 1500 sources failed; the next attempt tries them again",
        attempt=3,
        standing=Standing(1388, 100, 12, 0, 2),
        counts=counts,
        output="/data/out",
        seconds=65.0,
        incidents=("a worker of read died",),
    )
    failures = [FailureRecord(f"key{number}\x1b", 3, "read", "no", 1) for number in range(12)]
    parked = [
        Parked("deep/one", b"", 3, "OOMKilled", "", "a process died over it", 3),
        Parked("deep/two", b"", 3, "ApplicationError", "read", "no", 3),
    ]
    assert describe_outcome(outcome, Details(failures, Written(1, 2000), parked)) == [
        "12 of 1500 sources failed; the next attempt tries them again "
        "(attempt 3, 1 min 5 s, 100 skipped, 2 no longer listed)",
        "",
        "stage     in    out  filtered  failed  rows in  rows out  seconds",
        "files      0  1,500         0       0        0         0      0.0",
        "read   1,400  1,300        99       1    1,400    90,000     12.3",
        "",
        "read  dropped: not utf-8  1,234",
        "",
        "12 sources failed:",
        *(f"  key{number}\\x1b: read: no" for number in range(10)),
        "  and 2 more; see `strandline ledger sources --state failed`",
        "quarantined now:",
        "  deep/one: OOMKilled: a process died over it",
        "  deep/two: ApplicationError: read: no",
        "incident: a worker of read died",
        "output: /data/out (1 file, 2.0 kB)",
    ]
