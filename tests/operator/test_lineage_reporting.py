"""The reports of attempts' ends that a listener receives. No pass waits for a report."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import RunEvent, RunState

from attempt_builders import LETTERS
from fake_api import FakeApi, until
from lineage_listener import Listener, listening
from operator_bodies import make_pipeline
from played_operator import Operator, Scenario
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.lineage import PRODUCER
from strandline_api.status.enums import LineageState
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.usage.retry_counts import RetryCounts
from strandline_operator.integrations.lineage import reporting
from strandline_operator.integrations.lineage.events import FACET, make_end
from strandline_operator.integrations.lineage.reporting import EndReporter, start_reporting
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import AttemptEnd, PassPlan
from strandline_operator.model.view import View
from strandline_operator.reconcile.service import Service, World
from strandline_operator.settings import Settings

KILLED = AttemptStatus(
    start_time=1000.0,
    end_time=1060.5,
    cause=Cause.OOM_KILLED,
    message="head was killed for memory",
    progress=Progress(total=9, finished=4, failed=1, unfinished=4),
    is_frozen=True,
)


def make(number: int = 1, status: AttemptStatus = KILLED, uid: str = "uid-p") -> AttemptEnd:
    retries = RetryCounts(attempts=2, retries=1, disruptions=3)
    name = f"letters-{number}"
    return AttemptEnd("default", name, "letters", uid, "first", number, status, retries)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    with listening() as listener:
        monkeypatch.setenv("OPENLINEAGE_URL", listener.url)
        yield listener


@pytest.fixture
def notes() -> queue.Queue[str]:
    """Return the queue of recorded results of reports."""
    return queue.Queue()


@pytest.fixture
def reporter(listener: Listener, notes: queue.Queue[str]) -> Iterator[EndReporter]:
    started = start_reporting(os.environ, notes.put, lambda: 2000.0)
    assert started is not None
    yield started
    listener.answers.set()
    started.close()


def test_without_configuration_nothing_is_started(notes: queue.Queue[str]) -> None:
    before = threading.active_count()
    assert start_reporting({}, notes.put, lambda: 0.0) is None
    assert threading.active_count() == before


def test_without_the_client_library_one_line_names_the_missing_package(
    notes: queue.Queue[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reporting, "_CLIENT", "openlineage_that_nobody_has_installed")
    asked = {"OPENLINEAGE_URL": "http://localhost:5000"}
    assert start_reporting(asked, notes.put, lambda: 0.0) is None
    (line,) = caplog.messages
    assert line == "lineage: the client is not installed; use an image with strandline[lineage]"


def test_an_end_reaches_the_listener(
    reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    before = dict(os.environ)
    reporter.report(make())
    assert notes.get(timeout=60) == reporting.SENT
    (event,) = listener.events
    assert (event["eventType"], event["eventTime"]) == ("FAIL", "1970-01-01T00:17:40.500000+00:00")
    assert (event["job"]["namespace"], event["job"]["name"]) == ("default", "letters")
    facets = event["run"]["facets"]
    message = "OOMKilled: head was killed for memory"
    assert facets["errorMessage"]["message"] == message
    own = {name: value for name, value in facets[FACET].items() if not name.startswith("_")}
    assert own == {
        "attempt": "letters-1",
        "number": 1,
        "started": "1970-01-01T00:16:40Z",
        "cause": "OOMKilled",
        "retries": 1,
        "disruptions": 3,
        "sources": {
            "total": 9,
            "finished": 4,
            "failed": 1,
            "quarantined": 0,
            "skipped": 0,
            "unfinished": 4,
        },
    }
    assert dict(os.environ) == before  # the client writes its settings into the environment


def test_driver_and_operator_report_the_same_run(
    reporter: EndReporter,
    listener: Listener,
    notes: queue.Queue[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "a.txt").write_text("a")
    path = tmp_path / "letters.yaml"
    path.write_text(LETTERS.replace("FOLDER", str(tmp_path)).replace("ON_REMOVED", ""))
    monkeypatch.setenv("STRANDLINE_LINEAGE_UID", "uid-p")
    monkeypatch.setenv("STRANDLINE_ATTEMPT", "4")
    run_attempt(AttemptConfig(read_manifest(path).plan, tmp_path / "volume", engine="inline"))
    reporter.report(make(4))
    assert notes.get(timeout=60) == reporting.SENT

    assert [event["eventType"] for event in listener.events] == ["START", "COMPLETE", "FAIL"]
    assert len({event["run"]["runId"] for event in listener.events}) == 1
    for part in ("namespace", "name"):
        assert len({event["job"][part] for event in listener.events}) == 1
    parents = [event["run"]["facets"]["parent"] for event in listener.events]
    assert parents[0] == parents[1] == parents[2]
    # A facet replaces an earlier facet of the same name, so the operator must not repeat the
    # driver's facets. The client adds tags.
    facets = [set(event["run"]["facets"]) - {"tags"} for event in listener.events]
    assert facets[2] & facets[0] == {"parent"}


def test_events_are_complete_client_events() -> None:
    """The client's event classes reject missing time zones and ids."""
    for status in (KILLED, AttemptStatus()):
        event = make_end(make(status=status), 2000.0)
        assert isinstance(event, RunEvent)
        assert event.run.facets is not None
        assert event.job.facets is not None
        facets: dict[str, Any] = {**event.run.facets, **event.job.facets}
        for name, each in facets.items():
            assert each._producer == PRODUCER, name
            assert each._schemaURL.startswith("https://"), name


@pytest.mark.parametrize(
    ("cause", "state", "is_wrong"),
    [
        (None, RunState.COMPLETE, False),
        (Cause.SOURCES_FAILED, RunState.COMPLETE, True),
        (Cause.PREEMPTED, RunState.ABORT, True),
        (Cause.APPLICATION_ERROR, RunState.FAIL, True),
    ],
)
def test_an_end_has_a_state_and_a_reason(
    cause: Cause | None, state: RunState, is_wrong: bool
) -> None:
    event = make_end(make(status=AttemptStatus(cause=cause)), 2000.0)
    assert event.eventType is state
    assert event.eventTime == "1970-01-01T00:33:20+00:00"
    assert ("errorMessage" in (event.run.facets or {})) is is_wrong


@pytest.mark.parametrize("recording", ["d3-head-container-oom-kernel", "s-driver-oom"])
def test_an_attempt_lost_to_memory_ends_once(
    recording: str, reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    scenario = Scenario(recording, Limits(reports_lineage=True))
    scenario.operator.passes.report_end = reporter.report
    scenario.run()
    reporter.close(60.0)
    assert notes.get_nowait() == reporting.SENT
    (event,) = listener.events
    assert event["eventType"] == "FAIL"
    assert event["run"]["facets"][FACET]["cause"] == "OOMKilled"
    assert event["run"]["facets"][FACET]["attempt"] == scenario.attempt["metadata"]["name"]


def test_an_end_unsent_by_a_killed_operator_is_sent_by_the_next(
    reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    """The first operator is killed after it wrote the end and before its reporter gets the end."""
    scenario = Scenario("s-driver-oom", Limits(reports_lineage=True))
    scenario.run()
    (past,) = scenario.pipeline["status"]["attempts"]
    assert past["lineage"] == "Pending"
    scenario.operator = Operator(scenario.api, scenario.limits)
    passes = scenario.operator.passes
    passes.report_end = reporter.report
    passes.inputs = replace(passes.inputs, find_report=reporter.find_state)
    asyncio.run(scenario.settle())
    assert notes.get(timeout=60) == reporting.SENT
    asyncio.run(scenario.settle())
    (past,) = scenario.pipeline["status"]["attempts"]
    assert past["lineage"] == "Sent"
    asyncio.run(scenario.settle())
    assert [event["eventType"] for event in listener.events] == ["FAIL"]


def test_an_end_submitted_twice_is_sent_once(
    reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    for _ in range(3):
        reporter.report(make(1))
    reporter.report(make(1, uid="uid-q"))
    assert [notes.get(timeout=60) for _ in range(2)] == [reporting.SENT] * 2
    reporter.report(make(1))
    reporter.close(60.0)
    assert len(listener.events) == 2
    assert reporter.find_state("uid-p", 1) is LineageState.SENT
    assert reporter.find_state("uid-p", 2) is None


def test_a_refused_end_stays_refused_and_an_interrupted_end_stays_pending(
    listener: Listener, notes: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", listener.url)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    reporter = EndReporter(notes.put, lambda: 0.0, pauses=(60.0,))
    listener.status = 403
    reporter.report(make(1))
    assert notes.get(timeout=60) == reporting.FAILED
    assert reporter.find_state("uid-p", 1) is LineageState.REFUSED
    listener.status = 503
    listener.received.clear()
    reporter.report(make(2))
    assert listener.received.wait(60)
    reporter.close(60.0)
    assert notes.get(timeout=60) == reporting.FAILED
    assert reporter.find_state("uid-p", 2) is None


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusing_listener_is_logged_and_counted(
    status: int,
    reporter: EndReporter,
    listener: Listener,
    notes: queue.Queue[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener.status = status
    reporter.report(make(1))
    assert notes.get(timeout=60) == reporting.FAILED
    listener.status = 201
    reporter.report(make(2))
    assert notes.get(timeout=60) == reporting.SENT
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.getMessage().startswith("lineage: an attempt's end was not sent: HTTPError: ")
    about = line.__dict__
    assert (about["pipeline"], about["attempt"]) == ("default/letters", "letters-1")


def test_a_missing_listener_is_logged_and_counted(
    notes: queue.Queue[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with listening() as listener:
        gone = listener.url
    monkeypatch.setenv("OPENLINEAGE_URL", gone)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", gone)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    started = start_reporting(os.environ, notes.put, lambda: 0.0)
    assert started is not None
    started.report(make())
    started.close()
    assert notes.get(timeout=60) == reporting.FAILED
    assert "ConnectionError" in caplog.text


def test_an_end_is_sent_again_until_a_listener_is_back(
    listener: Listener, notes: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", listener.url)
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    listener.status = 503
    reporter = EndReporter(notes.put, lambda: 0.0, pauses=(0.01,))
    reporter.report(make(1))
    reporter.report(make(2))
    while len(listener.events) < 3:
        listener.received.wait(60)
        listener.received.clear()
    assert notes.empty()
    listener.status = 201
    assert [notes.get(timeout=60) for _ in range(2)] == [reporting.SENT] * 2
    reporter.close()
    numbers = [event["run"]["facets"][FACET]["number"] for event in listener.events]
    assert numbers == sorted(numbers)  # in order; the first end is sent twice


def test_ends_beyond_the_queue_limit_are_dropped_and_counted(
    listener: Listener, notes: queue.Queue[str], caplog: pytest.LogCaptureFixture
) -> None:
    listener.answers.clear()
    reporter = EndReporter(notes.put, lambda: 0.0, most=2)
    reporter.report(make(1))
    assert listener.received.wait(60)  # being sent, so the queue has space for two more
    for number in (2, 3, 4):
        reporter.report(make(number))
    assert notes.get_nowait() == reporting.DROPPED
    assert "attempt's end was dropped" in caplog.text
    reporter.close(0.0)  # does not wait for the queued ends
    assert "lineage: 2 ends were not sent" in caplog.text
    listener.answers.set()
    assert [notes.get(timeout=60) for _ in range(3)] == [reporting.SENT] * 3
    numbers = [event["run"]["facets"][FACET]["number"] for event in listener.events]
    assert numbers == [1, 2, 3]


def test_a_stop_sends_the_remaining_ends(
    reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    for number in (1, 2, 3):
        reporter.report(make(number))
    reporter.close(60.0)
    assert [notes.get_nowait() for _ in range(3)] == [reporting.SENT] * 3


def play(
    report_end: Callable[[AttemptEnd], None] | None,
    story: Callable[[Service, FakeApi], Any],
    choose: Callable[[View, float, Limits, float], PassPlan],
) -> None:
    async def run() -> None:
        api = FakeApi()
        world = World(api, lambda: 1000.0, lambda: 0.0)
        service = Service(Settings(), world, choose, Numbers(), report_end)
        try:
            await story(service, api)
        finally:
            await service.stop()

    asyncio.run(run())


def test_an_unresponsive_listener_delays_no_pass(
    reporter: EndReporter, listener: Listener, notes: queue.Queue[str]
) -> None:
    """Passes continue while the listener does not answer the first end."""
    listener.answers.clear()
    passes: list[str] = []

    def choose(view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
        passes.append(view.pipeline.meta.name)
        return PassPlan(ends=(make(len(passes)),))

    async def story(service: Service, api: FakeApi) -> None:
        make_pipeline(api.store, "first")
        await service.start()
        await until(listener.received.is_set)
        for number in range(20):
            service.see_pipeline(make_pipeline(api.store, f"later-{number}"))
        await until(lambda: len(set(passes)) == 21)
        assert service.report_health()
        assert notes.empty()  # no end has been sent

    play(reporter.report, story, choose)
    listener.answers.set()
    reporter.close(60.0)
    assert notes.qsize() == len(passes)


@pytest.mark.parametrize("reports", [False, True])
def test_decisions_depend_on_the_operators_reporting(reports: bool) -> None:
    known: list[bool] = []

    def choose(view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
        known.append(limits.reports_lineage)
        return PassPlan()

    async def story(service: Service, api: FakeApi) -> None:
        make_pipeline(api.store)
        await service.start()
        await until(lambda: bool(known))

    play((lambda _: None) if reports else None, story, choose)
    assert known == [reports]


def test_results_of_reports_are_a_metric() -> None:
    numbers = Numbers()
    for outcome in (reporting.SENT, reporting.SENT, reporting.FAILED):
        numbers.note_lineage(outcome)
    found = [
        numbers.registry.get_sample_value("strandline_lineage_events_total", {"outcome": outcome})
        for outcome in (reporting.SENT, reporting.FAILED, reporting.DROPPED)
    ]
    assert found == [2.0, 1.0, None]
