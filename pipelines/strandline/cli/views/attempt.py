"""Attempts as rows for people and objects for scripts. Pure: records in, text and data out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from strandline.cli.views.format import (
    align,
    format_time,
    spell_amount,
    spell_count,
    spell_seconds,
    spell_text,
)
from strandline.run.history.records import AttemptRecord, read_progress
from strandline.run.supervise.status_server import read_number, read_shown
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.outcome.evidence import Evidence

_COLUMNS = ("attempt", "run", "trigger", "started (UTC)", "lasted", "finished", "end", "message")


class State(StrEnum):
    """Where an attempt stands."""

    COMPLETED = "completed"
    ENDED = "ended"
    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


_MESSAGES = {
    State.GONE: "nobody saw its end; the next attempt writes down what is known of it",
    State.UNKNOWN: "it runs on another host or in another container, or nobody saw its end",
}


class AttemptView(NamedTuple):
    """One attempt.

    Attributes:
        record: what its folder says.
        state: by the record, and by its process where there is no end.
        seconds: how long it took, or has run for; None where that is not known.
        finished: sources finished by it, by the ledger's count.
    """

    record: AttemptRecord
    state: State
    seconds: float | None
    finished: int


def describe_attempts(views: Sequence[AttemptView]) -> Iterator[str]:
    """A table of attempts, a line each."""
    rows = [_COLUMNS, *map(_make_row, views)]
    return align(rows, left=len(_COLUMNS))


def spell_attempt(view: AttemptView) -> dict[str, Any]:
    """A line of `attempts --json`; its keys are stable."""
    record, outcome = view.record, view.record.outcome
    return {
        "attempt": record.number,
        "run": record.run,
        "trigger": record.trigger.value,
        "previous": record.previous,
        "started": _spell_iso(record.started),
        "ended": None if record.ended is None else _spell_iso(record.ended),
        "seconds": None if view.seconds is None else round(view.seconds, 3),
        "finished": view.finished,
        "state": view.state.value,
        "cause": record.cause.value if record.cause else None,
        "exitCode": outcome.exit_code if outcome else None,
        "message": _find_message(view),
    }


def describe_attempt(view: AttemptView, publications: Sequence[str]) -> Iterator[str]:
    """All that is known of one attempt, as lines.

    Args:
        view: the attempt.
        publications: names of those it has made that are still there.
    """
    return align(list(_list_facts(view, publications)), left=2)


def spell_whole_attempt(view: AttemptView, publications: Sequence[str]) -> dict[str, Any]:
    """The object of `attempts show --json`; its keys are stable."""
    record, outcome = view.record, view.record.outcome
    return {
        **spell_attempt(view),
        "sources": outcome.sources.model_dump() if outcome else None,
        "remaining": outcome.remaining if outcome else None,
        "memoryKills": outcome.memory_kills if outcome else None,
        "evidence": [each.to_json() for each in outcome.evidence] if outcome else [],
        "witness": record.witness.value if record.witness else None,
        "process": {"pid": record.pid, "started": record.process_started, "boot": record.boot},
        "ledger": record.ledger,
        "publications": list(publications),
    }


def _make_row(view: AttemptView) -> tuple[str, ...]:
    record = view.record
    return (
        str(record.number),
        spell_text(record.run),
        record.trigger.value,
        _spell_time(record.started),
        _spell_length(view.seconds),
        spell_count(view.finished),
        record.cause.value if record.cause else view.state.value,
        spell_text(_find_message(view)),
    )


def _list_facts(view: AttemptView, publications: Sequence[str]) -> Iterator[tuple[str, str]]:
    record, outcome = view.record, view.record.outcome
    before = f", after attempt {record.previous}" if record.previous else ""
    yield "attempt", f"{record.number}{before}"
    yield "run", spell_text(record.run)
    yield "trigger", record.trigger.value
    yield "started", f"{_spell_time(record.started)} UTC"
    if record.ended is not None:
        yield "ended", f"{_spell_time(record.ended)} UTC"
    yield "lasted", _spell_length(view.seconds)
    yield "finished", spell_amount(view.finished, "source")
    yield "end", _describe_end(view)
    yield "message", spell_text(_find_message(view))
    for name, each in zip(_first("evidence"), outcome.evidence if outcome else (), strict=False):
        yield name, _describe_evidence(each)
    yield "process", f"{record.pid}, boot {record.boot}"
    yield "ledger", record.ledger
    yield "publications", ", ".join(publications) or "none"


def _first(name: str) -> Iterator[str]:
    """A name that is said once."""
    yield name
    while True:
        yield ""


def _describe_end(view: AttemptView) -> str:
    record, outcome = view.record, view.record.outcome
    if outcome is None or record.witness is None:
        return view.state.value
    what = record.cause.value if record.cause else view.state.value
    return f"{what}, exit code {outcome.exit_code}, by word of the {record.witness.value}"


def _describe_evidence(evidence: Evidence) -> str:
    return spell_text(f"{evidence.cause.value} ({evidence.source}): {evidence.message}")


def _find_message(view: AttemptView) -> str:
    outcome = view.record.outcome
    return outcome.message if outcome else _MESSAGES.get(view.state, "")


def _spell_length(seconds: float | None) -> str:
    return "unknown" if seconds is None else spell_seconds(seconds)


def _spell_time(time: float) -> str:
    return format_time(time, "%Y-%m-%d %H:%M:%S")


def _spell_iso(time: float) -> str:
    return format_time(time, "%Y-%m-%dT%H:%M:%SZ")


FRESH_SECONDS = 30.0


def view_attempt(folder: PipelineFolder, record: AttemptRecord, time: float) -> AttemptView:
    """The attempt of a record, as it stands at a time in seconds since the epoch."""
    if record.ended is not None and record.outcome is not None:
        state = State.ENDED if record.cause else State.COMPLETED
        length = max(0.0, record.ended - record.started)
        return AttemptView(record, state, length, record.outcome.sources.finished)
    finished = read_progress(folder, record.number).finished
    if record.boot != read_boot_id():
        return AttemptView(record, State.UNKNOWN, None, finished)
    if find_process(record.pid) != record.process:
        return AttemptView(record, State.GONE, None, finished)
    return AttemptView(record, State.RUNNING, max(0.0, time - record.started), finished)


def read_live(folder: PipelineFolder, view: AttemptView, time: float) -> dict[str, Any] | None:
    """What an attempt's driver says of itself in the pipeline's folder; None where none says any.

    Of a driver on another host only what it has said a moment ago counts.
    """
    shown = read_shown(folder.progress, view.record.pid)
    if shown is None or view.state not in {State.RUNNING, State.UNKNOWN}:
        return None
    age = time - read_number(shown.get("time"))
    is_live = view.state is State.RUNNING or age <= FRESH_SECONDS
    return dict(shown) if is_live else None
