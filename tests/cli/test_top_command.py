"""`strandline top`: its view of each state of a run, where its data comes from, and its end."""

from __future__ import annotations

import io
import json
import math
import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cli_project import Call, Project
from command_server import start_command
from report_builders import VERSION, facts_of, live_of, running
from strandline.cli.report.page import render_page
from strandline.cli.views.attempt import AttemptStanding, read_live
from strandline.cli.views.running.snapshot import StageView
from strandline.cli.views.running.snapshot_json import parse_json, render_snapshot
from strandline.cli.views.running.top import RECENT, RecentFailures, TopFacts, draw_top
from strandline.data.statistics.request_figures import RequestFigures
from strandline.ledger.records.entries import FailureRecord, QuarantinedSource
from strandline.run.supervise.status_server import AttemptServer
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.reader_token import derive_token, digest_token

# Data like a driver's report, with arbitrary values in any place.
_ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_SOURCE_KEYS = ("listed", "total", "finished", "failed", "skipped", "quarantined")
ASKED = RequestFigures(20, 3, 700, 50, 0.25, (0.5, 2.0, math.inf))
ASKING = StageView("ask", 9, 9, 0, 0, requests=ASKED)
_SAID = render_snapshot(live_of()._replace(stages=(ASKING,)))["stages"][0]
_REQUESTS = st.fixed_dictionaries({}, optional=dict.fromkeys(_SAID["requests"], _ANYTHING))
_STAGE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(_SAID, _ANYTHING) | {"requests": _ANYTHING | _REQUESTS}
)
ODD = _ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("seconds", "rate", "incidents", "bottleneck", "note"), _ANYTHING),
        "sources": _ANYTHING
        | st.fixed_dictionaries({}, optional=dict.fromkeys(_SOURCE_KEYS, _ANYTHING)),
        "stages": _ANYTHING | st.lists(_ANYTHING | _STAGE, max_size=3),
    },
)


def failed(number: int) -> FailureRecord:
    return FailureRecord(f"in/{number}.txt", 1, "read", "bad \x1b[2Jmagic", 1, VERSION)


def show(facts: TopFacts, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(draw_top(facts), highlight=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_drivers_report_is_parsed_back() -> None:
    live = live_of()
    again = parse_json(json.loads(json.dumps(render_snapshot(live))))
    assert again == live
    assert parse_json({}).stages == ()
    assert parse_json({"sources": None, "stages": [{"name": "a"}]}).stages[0].name == "a"


def test_stages_sources_and_failures_are_shown() -> None:
    counts = {"finished": 1200, "failed": 3, "inflight": 5, "quarantined": 0}
    text = show(TopFacts("default/notes", running(2), live_of(), counts, (failed(1),)))
    lines = text.splitlines()
    assert lines[0].rstrip() == "default/notes  attempt 2 running, 1 min 0 s"
    assert "38 of 200 sources finished, 2 failed, 30 skipped, 1 incident; 2.5/s" in text
    assert "ledger: 1,200 finished, 3 failed, 5 inflight, 0 quarantined" in text
    (read,) = [line.split() for line in lines if line.startswith("read ")]
    assert " ".join(read) == "read 12.5 87% 3 2 3/4 50 40 1 2 sets the pace"
    assert r"in/1.txt: read: bad \x1b[2Jmagic" in text
    assert "\x1b" not in text


def test_the_last_note_is_shown() -> None:
    note = "ask-model: the server has not responded since 05:10 UTC \x1b[2J"
    live = live_of()._replace(note=note)
    assert parse_json(json.loads(json.dumps(render_snapshot(live)))) == live
    assert r"ask-model: the server has not responded since 05:10 UTC \x1b[2J" in show(
        TopFacts("default/notes", running(2), live)
    )
    assert "note" not in render_snapshot(live_of())


@pytest.mark.parametrize("cost", [None, 0.25])
def test_requests_to_a_model_are_parsed_and_shown(cost: float | None) -> None:
    live = live_of()._replace(stages=(ASKING._replace(requests=ASKED._replace(cost=cost)),))
    again = parse_json(json.loads(json.dumps(render_snapshot(live))))
    assert again.stages == live.stages
    words = "ask: 20 requests, 3 answered by the log, 700 tokens in, 50 out"
    words += ", cost 0.25" * (cost is not None)
    assert f"{words}; of answers 50% within 0.5 s, 95% within 2 s, 99% after longer" in show(
        TopFacts("notes", running(2), again), 200
    )


def test_before_a_run_there_is_little_to_show() -> None:
    assert show(TopFacts("default/notes")) == "default/notes  not run yet\n"


def test_the_latest_failures_come_first_without_repetition() -> None:
    recent = RecentFailures()
    assert recent.take([]) == ()
    assert recent.take([failed(1), failed(2)]) == (failed(2), failed(1))
    assert recent.take([failed(1), failed(2)]) == (failed(2), failed(1))
    assert recent.take([failed(0), failed(1), failed(2)])[0] == failed(0)
    assert len(recent.take(map(failed, range(50)))) == RECENT


def test_failures_of_earlier_attempts_are_not_shown() -> None:
    recent = RecentFailures()
    assert recent.take([failed(1), failed(2)], 1) == (failed(2), failed(1))
    assert recent.take([], 2) == ()
    again = failed(1)._replace(attempt=2)
    assert recent.take([again], 2) == (again,)


def test_failures_that_lead_to_quarantine_are_shown(
    project: Project, run: Call, call: Call
) -> None:
    project.spec["quarantine"] = {"after": 1, "tolerate": "100%"}
    project.add_stage("def process(self, task: Task) -> Task:\n    raise ValueError('one')\n")
    run()
    text = call("top", "pipeline.yaml", "--once").stdout
    assert "ledger: 0 finished, 0 failed, 0 inflight, 3 quarantined" in text
    assert "in/0.txt: own: ValueError: one" in text.partition("failed lately")[2]


def test_a_process_that_died_over_a_source_has_no_stage() -> None:
    quarantined = QuarantinedSource(
        "in/x.txt", VERSION, 3, "Killed", "", "its worker was killed alone", 3
    )
    text = show(TopFacts("default/notes", failures=(quarantined,)))
    assert "in/x.txt: its worker was killed alone" in text


@pytest.mark.parametrize("command", [("report", "--out", "-"), ("top", "--once")])
def test_an_empty_ledger_counts_as_missing(
    project: Project, run: Call, call: Call, command: tuple[str, ...]
) -> None:
    run()
    (project.folder / "ledger/data.mdb").write_bytes(b"")
    name, *words = command
    result = call(name, "pipeline.yaml", *words)
    assert (result.exit_code, result.stderr) == (0, "")


@given(said=ODD)
def test_law_any_report_of_a_driver_can_be_rendered(said: object) -> None:
    live = parse_json(said)
    assert show(TopFacts("default/notes", running(2), live))
    assert render_page(facts_of(live=live))


@pytest.mark.parametrize("moment", ["2026-11-22T12:00:00Z", None, [], 10**400, True])
def test_a_report_without_a_time_counts_as_old(tmp_path: Path, moment: object) -> None:
    folder, view = PipelineFolder(tmp_path), running(2)
    folder.progress.parent.mkdir(parents=True, exist_ok=True)
    folder.progress.write_text(json.dumps({"pid": view.record.pid, "time": moment}))
    assert read_live(folder, view, 1e9) is not None
    assert read_live(folder, view._replace(state=AttemptStanding.UNKNOWN), 1e9) is None


def test_without_a_terminal_top_prints_once(project: Project, run: Call, call: Call) -> None:
    assert call("top", "pipeline.yaml").stdout == "default/notes  not run yet\n"
    assert not project.folder.exists()
    project.add_stage(
        "def process(self, task: Task) -> Task:\n"
        "    if b'1' in bytes(str(task.table.to_pydict()), 'utf8'):\n"
        "        raise ValueError('one')\n"
        "    return task"
    )
    run()
    for words in ((), ("--once",)):
        text = call("top", "pipeline.yaml", *words).stdout
        assert text.startswith("default/notes  attempt 1 ")
        assert "ledger: 2 finished, 1 failed, 0 inflight, 0 quarantined" in text
        assert "failed lately\nin/1.txt: own" in text


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AttemptServer]:
    """Yield the server of a driver."""
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"pid": 7, **render_snapshot(live_of())}))
    server = AttemptServer(0)
    server.watch(path, lambda: 7, lambda: "")
    yield server
    server.close()


def test_a_serving_driver_is_queried(project: Project, call: Call, server: AttemptServer) -> None:
    place = f"127.0.0.1:{server.port}"
    text = call("top", "pipeline.yaml", "--ask", place).stdout
    assert text.startswith(f"default/notes at {place}  1 min 0 s\n")
    assert "sets the pace" in text


def test_a_driver_on_a_cluster_requires_the_uid_of_its_attempt(
    project: Project, call: Call, tmp_path: Path
) -> None:
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"pid": 7, **render_snapshot(live_of())}))
    server = AttemptServer(0, reader=digest_token(derive_token("a-uid")))
    server.watch(path, lambda: 7, lambda: "")
    words = ("top", "pipeline.yaml", "--ask", f"127.0.0.1:{server.port}")
    refused = call(*words)
    assert (refused.exit_code, "requires --attempt-uid" in refused.stderr) == (1, True)
    assert "sets the pace" in call(*words, "--attempt-uid", "a-uid").stdout
    server.close()


def test_an_unreachable_driver_is_reported(
    project: Project, call: Call, server: AttemptServer
) -> None:
    server.watch(Path("nowhere"), lambda: None, lambda: "")
    result = call("top", "pipeline.yaml", "--ask", f"127.0.0.1:{server.port}")
    assert (result.exit_code, "nothing to report yet (404)" in result.stderr) == (1, True)
    result = call("top", "pipeline.yaml", "--ask", "127.0.0.1:1")
    assert (result.exit_code, "no driver responds there" in result.stderr) == (1, True)


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_in_a_terminal_top_runs_until_a_key_is_pressed(project: Project, key: bytes) -> None:
    leader, follower = pty.openpty()
    process = start_command(
        [sys.executable, "-c", AT_TERMINAL, "top", "pipeline.yaml"],
        cwd=project.path,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(follower)
    try:
        seen = read_until(leader, b"not run yet")
        assert b"default/notes" in seen
        assert process.poll() is None
        os.write(leader, key)
        # A write to a terminal blocks until the output is read.
        seen = read_until(leader, b"\x1b[?1049l")
        assert process.wait(300) == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(leader)


# A program that makes standard input the terminal of its session, so that keys become signals.
AT_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from strandline.__main__ import main
main()
"""


def read_until(terminal: int, wanted: bytes) -> bytes:
    seen, end = b"", time.monotonic() + 300
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, seen
        seen += os.read(terminal, 65536)
    return seen
