"""Formats attempts as rows for people and as objects for scripts.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import reduce
from typing import Any, NamedTuple

from strandline.cli.views.format import (
    align,
    describe_lost_work,
    escape_text,
    format_amount,
    format_count,
    format_seconds,
    format_time,
)
from strandline.run.insight.records import AttemptRecord, read_progress
from strandline.run.supervise.progress_reader import read_number, read_shown
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.outcome.evidence import Evidence
from strandline_api.outcome.work_lost import WorkLost

_COLUMNS = ("attempt", "run", "trigger", "started (UTC)", "lasted", "finished", "end", "message")


class AttemptStanding(StrEnum):
    """State of an attempt."""

    COMPLETED = "completed"
    ENDED = "ended"
    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


_MESSAGES = {
    AttemptStanding.GONE: "its end was not observed; the next attempt records what is known",
    AttemptStanding.UNKNOWN: (
        "it is running on another host or in another container, or its end was not observed"
    ),
}


class AttemptSummary(NamedTuple):
    """An attempt, with facts from its record, its process, and the ledger.

    Attributes:
        record: record in the attempt's folder.
        state: recorded state, or the state of the process if no end was recorded.
        seconds: duration so far; None if unknown.
        finished: number of sources finished by the attempt, from the ledger.
    """

    record: AttemptRecord
    state: AttemptStanding
    seconds: float | None
    finished: int


def describe_attempts(views: Sequence[AttemptSummary], width: int | None = None) -> Iterator[str]:
    """Describe attempts as a table, with one line per attempt if the width allows."""
    rows = [_COLUMNS, *map(_make_row, views)]
    return align(rows, len(_COLUMNS), width)


def render_attempt(view: AttemptSummary) -> dict[str, Any]:
    """Render a line of `attempts --json`; its keys are stable."""
    record, outcome = view.record, view.record.outcome
    return {
        "attempt": record.number,
        "run": record.run,
        "trigger": record.trigger.value,
        "previous": record.previous,
        "started": _format_iso(record.started),
        "ended": None if record.ended is None else _format_iso(record.ended),
        "seconds": None if view.seconds is None else round(view.seconds, 3),
        "finished": view.finished,
        "state": view.state.value,
        "cause": record.cause.value if record.cause else None,
        "exitCode": outcome.exit_code if outcome else None,
        "message": _find_message(view),
        **(
            {"workSeconds": outcome.work_seconds, "workLost": outcome.work_lost.to_json()}
            if outcome and outcome.work_seconds
            else {}
        ),
    }


def describe_all_lost(views: Sequence[AttemptSummary]) -> str:
    """Describe the work that all attempts lost; return an empty string if none is recorded."""
    outcomes = [view.record.outcome for view in views if view.record.outcome is not None]
    lost = reduce(WorkLost.add, (outcome.work_lost for outcome in outcomes), WorkLost())
    words = describe_lost_work(lost, sum(outcome.work_seconds for outcome in outcomes))
    return f"over all attempts, {words}" if words else ""


def describe_attempt(
    view: AttemptSummary, publications: Sequence[str], width: int | None = None
) -> Iterator[str]:
    """Describe all details of one attempt, as lines.

    Args:
        view: the attempt.
        publications: names of the attempt's publications that still exist.
        width: number of characters in a line; None for unlimited lines.
    """
    return align(list(_list_facts(view, publications)), 2, width)


def render_attempt_details(view: AttemptSummary, publications: Sequence[str]) -> dict[str, Any]:
    """Render the object of `attempts show --json`; its keys are stable."""
    record, outcome = view.record, view.record.outcome
    return {
        **render_attempt(view),
        "sources": outcome.to_json()["sources"] if outcome else None,
        "remaining": outcome.remaining if outcome else None,
        "memoryKills": outcome.memory_kills if outcome else None,
        "evidence": [each.to_json() for each in outcome.evidence] if outcome else [],
        "witness": record.witness.value if record.witness else None,
        "process": {"pid": record.pid, "started": record.process_started, "boot": record.boot},
        "ledger": record.ledger,
        "publications": list(publications),
    }


def _make_row(view: AttemptSummary) -> tuple[str, ...]:
    record = view.record
    return (
        str(record.number),
        escape_text(record.run),
        record.trigger.value,
        _format_moment(record.started),
        _format_duration(view.seconds),
        format_count(view.finished),
        record.cause.value if record.cause else view.state.value,
        escape_text(_find_message(view)),
    )


def _list_facts(view: AttemptSummary, publications: Sequence[str]) -> Iterator[tuple[str, str]]:
    record, outcome = view.record, view.record.outcome
    before = f", after attempt {record.previous}" if record.previous else ""
    yield "attempt", f"{record.number}{before}"
    yield "run", escape_text(record.run)
    yield "trigger", record.trigger.value
    yield "started", f"{_format_moment(record.started)} UTC"
    if record.ended is not None:
        yield "ended", f"{_format_moment(record.ended)} UTC"
    yield "lasted", _format_duration(view.seconds)
    yield "finished", format_amount(view.finished, "source")
    if outcome and (lost := describe_lost_work(outcome.work_lost, outcome.work_seconds)):
        yield "lost", lost
    yield "end", _describe_end(view)
    yield "message", escape_text(_find_message(view))
    for name, each in zip(_first("evidence"), outcome.evidence if outcome else (), strict=False):
        yield name, _describe_evidence(each)
    yield "process", f"{record.pid}, boot {record.boot}"
    yield "ledger", record.ledger
    yield "publications", ", ".join(publications) or "none"


def _first(name: str) -> Iterator[str]:
    """Yield a name for the first row of a list, and empty strings for the other rows."""
    yield name
    while True:
        yield ""


def _describe_end(view: AttemptSummary) -> str:
    record, outcome = view.record, view.record.outcome
    if outcome is None or record.witness is None:
        return view.state.value
    what = record.cause.value if record.cause else view.state.value
    return f"{what}, exit code {outcome.exit_code}, reported by the {record.witness.value}"


def _describe_evidence(evidence: Evidence) -> str:
    return escape_text(f"{evidence.cause.value} ({evidence.source}): {evidence.message}")


def _find_message(view: AttemptSummary) -> str:
    outcome = view.record.outcome
    return outcome.message if outcome else _MESSAGES.get(view.state, "")


def _format_duration(seconds: float | None) -> str:
    return "unknown" if seconds is None else format_seconds(seconds)


def _format_moment(time: float) -> str:
    return format_time(time, "%Y-%m-%d %H:%M:%S")


def _format_iso(time: float) -> str:
    return format_time(time, "%Y-%m-%dT%H:%M:%SZ")


# Maximum age of current progress, in seconds. A driver writes progress every two seconds, so an
# older file belongs to a driver that is dead or stuck.
FRESH_SECONDS = 30.0


def view_attempt(folder: PipelineFolder, record: AttemptRecord, time: float) -> AttemptSummary:
    """Return the attempt that a record describes, as of a time in seconds since the epoch."""
    if record.ended is not None and record.outcome is not None:
        state = AttemptStanding.ENDED if record.cause else AttemptStanding.COMPLETED
        length = max(0.0, record.ended - record.started)
        return AttemptSummary(record, state, length, record.outcome.sources.finished)
    finished = read_progress(folder, record.number).finished
    # A PID is valid only on the same host and until the next boot.
    if record.boot != read_boot_id():
        return AttemptSummary(record, AttemptStanding.UNKNOWN, None, finished)
    # Compare start times as well, because another process may have reused the PID.
    if find_process(record.pid) != record.process:
        return AttemptSummary(record, AttemptStanding.GONE, None, finished)
    return AttemptSummary(
        record, AttemptStanding.RUNNING, max(0.0, time - record.started), finished
    )


def read_live(folder: PipelineFolder, view: AttemptSummary, time: float) -> dict[str, Any] | None:
    """Return the progress that an attempt's driver wrote to the pipeline's folder, if any.

    For a driver on another host, only recent progress counts.
    """
    shown = read_shown(folder.progress, view.record.pid)
    if shown is None or view.state not in {AttemptStanding.RUNNING, AttemptStanding.UNKNOWN}:
        return None
    age = time - read_number(shown.get("time"))
    is_live = view.state is AttemptStanding.RUNNING or age <= FRESH_SECONDS
    return dict(shown) if is_live else None
