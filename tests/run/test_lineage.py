"""Reports to lineage systems: the start and the end of each attempt, once, only if enabled."""

from __future__ import annotations

import json
import os
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from attempt_builders import LETTERS, killed_for, record_of
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.insight.lineage import reporting
from strandline.run.insight.lineage.events import AttemptEvents, list_inputs, name_location
from strandline.run.insight.lineage.marker import BEGUN, ENDED, MARKER, read_marker
from strandline.run.insight.records import Witness, read_record
from strandline.run.manifest.manifest import read_manifest
from strandline.run.supervise.record_writing import write_record
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.outcome.lineage import PRODUCER, name_attempt_run, name_parent_run


@pytest.fixture
def letters(tmp_path: Path) -> AttemptConfig:
    """Return the configuration of a pipeline over three small files."""
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / f"in/{name}.txt").write_text(name)
    path = tmp_path / "letters.yaml"
    text = LETTERS.replace("FOLDER", str(tmp_path / "in")).replace("ON_REMOVED", "")
    path.write_text(text)
    return AttemptConfig(read_manifest(path).plan, tmp_path, engine="inline")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which the OpenLineage client writes events."""
    path = tmp_path / "events.jsonl"
    settings = {"TYPE": "file", "LOG_FILE_PATH": str(path), "APPEND": "true"}
    for name, value in settings.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def list_states(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [
        (event["eventType"], event["run"]["facets"]["strandline"]["attempt"]) for event in events
    ]


def test_nothing_is_reported_unless_enabled(
    letters: AttemptConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    run_attempt(letters)
    assert not (letters.folder.attempt(1) / MARKER).exists()


def test_an_attempt_reports_its_start_and_end(letters: AttemptConfig, log: Path) -> None:
    run_attempt(letters)
    start, end = read(log)
    assert [start["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert uuid.UUID(start["run"]["runId"]) != uuid.UUID(
        start["run"]["facets"]["parent"]["run"]["runId"]
    )
    assert (end["job"]["namespace"], end["job"]["name"]) == ("default", "letters")
    (source,) = end["inputs"]
    assert (source["namespace"], source["name"]) == (
        "file",
        str(letters.folder.path.parents[1] / "in"),
    )
    (output,) = end["outputs"]
    assert output["name"] == str(letters.folder.output)
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (3, 3)
    facet = end["run"]["facets"]["strandline"]
    assert facet["sources"]["finished"] == facet["sources"]["total"] == 3
    assert facet["stages"]["read-files"]["rowsOut"] == 3
    assert facet["fingerprint"] == letters.plan.fingerprint.digest
    record = read_record(letters.folder, 1)
    assert record is not None
    assert facet["ledger"] == record.ledger


def test_the_next_attempt_reports_a_killed_attempt_once(letters: AttemptConfig, log: Path) -> None:
    run_attempt(letters)
    record = read_record(letters.folder, 1)
    assert record is not None
    killed = record.end(killed_for(Cause.OOM_KILLED), record.started + 5, Witness.SUPERVISOR)
    write_record(letters.folder, killed)
    (letters.folder.attempt(1) / MARKER).write_bytes(BEGUN)
    log.unlink()

    run_attempt(letters)
    run_attempt(letters)

    events = read(log)
    assert list_states(events) == [
        ("FAIL", 1), ("START", 2), ("COMPLETE", 2), ("START", 3), ("COMPLETE", 3),
    ]  # fmt: skip
    assert events[0]["run"]["facets"]["errorMessage"]["message"]
    assert events[0]["run"]["facets"]["strandline"]["cause"] == "OOMKilled"
    parents = {event["run"]["facets"]["parent"]["run"]["runId"] for event in events}
    assert len(parents) == 1


def test_a_reporting_operator_names_the_attempts_and_reports_lost_ends(
    letters: AttemptConfig, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_attempt(letters)
    record = read_record(letters.folder, 1)
    assert record is not None
    killed = record.end(killed_for(Cause.OOM_KILLED), record.started + 5, Witness.SUPERVISOR)
    write_record(letters.folder, killed)
    (letters.folder.attempt(1) / MARKER).write_bytes(BEGUN)
    log.unlink()

    monkeypatch.setenv("STRANDLINE_LINEAGE_UID", "uid-p")
    monkeypatch.setenv("STRANDLINE_ATTEMPT", "7")  # five attempts did not reach a driver
    run_attempt(letters)

    events = read(log)
    assert list_states(events) == [("START", 2), ("COMPLETE", 2)]
    runs = {event["run"]["runId"] for event in events}
    assert runs == {name_attempt_run("uid-p", "first", 7)}
    parents = {event["run"]["facets"]["parent"]["run"]["runId"] for event in events}
    assert parents == {name_parent_run("uid-p", "first")}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"STRANDLINE_ATTEMPT": "7"},
        {"STRANDLINE_LINEAGE_UID": "uid-p"},
        {"STRANDLINE_LINEAGE_UID": "uid-p", "STRANDLINE_ATTEMPT": "seven"},
    ],
)
def test_without_both_names_no_operator_reports(environment: dict[str, str]) -> None:
    assert reporting.read_cluster_attempt(environment) is None


def test_the_state_of_reports_is_stored_beside_the_record(
    letters: AttemptConfig, log: Path
) -> None:
    assert read_marker(letters.folder, 1) == b""
    run_attempt(letters)
    assert read_marker(letters.folder, 1) == ENDED


def test_a_listener_that_refuses_fails_no_attempt(
    letters: AttemptConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(403)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Suppress the request log."""

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        before = dict(os.environ)
        outcome = run_attempt(letters)
        assert dict(os.environ) == before  # the client changes the environment while it runs
    finally:
        server.shutdown()
        server.server_close()
    assert outcome.code is ExitCode.COMPLETE
    assert (letters.folder.attempt(1) / MARKER).exists() is False
    assert [note.partition(":")[0] for note in outcome.incidents] == ["lineage"] * 2


def test_a_slow_listener_delays_an_end_only_briefly(
    letters: AttemptConfig, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, notes = threading.Event(), list[str]()
    monkeypatch.setattr(reporting, "LISTENER_SECONDS", 0.05)
    monkeypatch.setattr(reporting.LineageReporter, "_send", lambda *_: release.wait(60) and None)
    run_attempt(letters)
    reporter = reporting.LineageReporter(letters.plan, letters.folder, "inline", notes.append)
    reporter.begin(1, str(letters.folder.output))
    reporter.end()
    release.set()
    assert notes == [
        "lineage: the lineage system does not respond; the next attempt reports the "
        "end of this attempt"
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("no"), "install strandline[lineage]"),
        (TimeoutError("no answer"), "reporting failed: TimeoutError: no answer"),
    ],
)
def test_failed_reports_are_noted(
    error: Exception, words: str, letters: AttemptConfig, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    run_attempt(letters)
    monkeypatch.setattr(reporting.LineageReporter, "_send", fail)
    notes = list[str]()
    reporter = reporting.LineageReporter(letters.plan, letters.folder, "inline", notes.append)
    reporter.begin(1, "/out")
    reporter.end()
    assert len(notes) == 2
    assert all(words in note for note in notes)


def test_locations_have_openlineages_names_and_no_credentials() -> None:
    assert name_location("s3://key:secret@bucket/a/b/") == ("s3://bucket", "a/b")
    assert name_location("s3://bucket") == ("s3://bucket", "/")
    assert name_location("file:///data/out") == ("file", "/data/out")


def test_inputs_are_the_folders_of_globs(letters: AttemptConfig) -> None:
    source = letters.plan.source.stage
    given = ("s3://b/x/*.txt", "s3://b/x/y*/z.txt", "{stdlib}/**/*.py", "/data/one.txt")
    object.__setattr__(source.params, "paths", given)
    assert list_inputs(letters.plan) == [("s3://b", "x"), ("file", "/data/one.txt")]


def test_events_are_the_clients_own_and_whole(letters: AttemptConfig) -> None:
    """The client's event classes reject missing time zones and ids."""
    events = AttemptEvents(letters.plan, "/out", "ray", "1.2")
    record = record_of(1, ledger="ab")
    start = events.make_start(record)
    assert start.eventTime == "1970-01-01T00:16:40+00:00"
    assert start.outputs is not None
    assert start.outputs[0].outputFacets == {}
    done = record.end(killed_for(Cause.NODE_LOST), 2000.0, Witness.SUCCESSOR)
    end = events.make_end(done, {"jsonl": StageCounts(tasks_in=5, failed=1, rows_in=40)})
    assert end.outputs is not None
    assert end.outputs[0].outputFacets is not None
    facet: Any = end.outputs[0].outputFacets["outputStatistics"]
    assert (facet.rowCount, facet.fileCount) == (40, 4)
    for event in (start, end):
        assert event.run.facets is not None
        for name, each in event.run.facets.items():
            assert each._producer == PRODUCER, name
            assert each._schemaURL.startswith("https://"), name
