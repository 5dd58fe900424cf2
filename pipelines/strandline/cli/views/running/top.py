"""Formats the current state of a run for a terminal: stages, sources by state, recent failures.

This module does no I/O.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from strandline.cli.views.attempt import AttemptSummary
from strandline.cli.views.format import (
    describe_lost_work,
    describe_requests,
    escape_text,
    format_amount,
    format_count,
    format_seconds,
)
from strandline.cli.views.running.progress import (
    StageTable,
    describe_longest,
    describe_sources,
    format_oldest,
)
from strandline.cli.views.running.snapshot import Snapshot, StageView
from strandline.ledger.records.entries import FailureRecord, QuarantinedSource

Failed = FailureRecord | QuarantinedSource  # a quarantined source's last failure also counts
RECENT = 6
_COLUMNS = (
    "tasks/s",
    "busy",
    "waiting",
    "running",
    "oldest",
    "workers",
    "in",
    "out",
    "failed",
    "lost",
)
_EXPENDABLE = ("in", "lost", "tasks/s", "out", "running", "busy", "oldest")
_ALARMING = ("failed", "quarantined")


class TopFacts(NamedTuple):
    """Facts for the display.

    Attributes:
        name: name of the pipeline, or address of its driver.
        attempt: the newest attempt, or None if its folder is not accessible.
        live: recent snapshot from the driver, or None if there is no running driver.
        counts: sources by state from the ledger; empty if the ledger is not accessible.
        failures: failures of this attempt, the latest first.
    """

    name: str
    attempt: AttemptSummary | None = None
    live: Snapshot | None = None
    counts: Mapping[str, int] = {}
    failures: tuple[Failed, ...] = ()


class RecentFailures:
    """Finds an attempt's new failures by comparison: the ledger does not order them by time."""

    def __init__(self) -> None:
        self._attempt = 0
        self._seen: set[str] = set()
        self._latest: deque[Failed] = deque(maxlen=RECENT)

    def take(self, failures: Iterable[Failed], attempt: int = 0) -> tuple[Failed, ...]:
        """Compare with an attempt's current failures. Return the latest, newest first."""
        if attempt != self._attempt:
            self._attempt = attempt
            self._seen.clear()
            self._latest.clear()
        for failure in failures:
            if failure.key not in self._seen:
                self._seen.add(failure.key)
                self._latest.appendleft(failure)
        return tuple(self._latest)


def draw_top(facts: TopFacts) -> Group:
    """Return the elements of the display, from top to bottom."""
    return Group(*_list_parts(facts))


def _list_parts(facts: TopFacts) -> Iterator[RenderableType]:
    yield Text.assemble((escape_text(facts.name), "bold"), "  ", _describe_attempt(facts))
    if facts.live is not None:
        yield Text(describe_sources(facts.live))
        if lost := describe_lost_work(facts.live.work.lost, facts.live.work.worked):
            yield Text(lost)
    if facts.counts:
        yield _describe_counts(facts.counts)
    if facts.live is not None:
        yield Text()
        yield _draw_stages(facts.live)
        yield from _list_requests(facts.live)
        if longest := describe_longest(facts.live):
            yield Text(longest, no_wrap=True, overflow="ellipsis")
        if facts.live.note:
            yield Text(escape_text(facts.live.note))
    if facts.failures:
        yield Text()
        yield Text("failed lately", style="dim")
        for failure in facts.failures:
            # The stage is empty if the source crashed a process.
            words = ": ".join(filter(None, (failure.key, failure.stage, failure.message)))
            yield Text(escape_text(words), no_wrap=True, overflow="ellipsis")


def _list_requests(live: Snapshot) -> Iterator[Text]:
    for stage in live.stages:
        if stage.requests.has_any:
            yield Text(f"{escape_text(stage.name)}: {describe_requests(stage.requests)}")


def _describe_attempt(facts: TopFacts) -> str:
    view, live = facts.attempt, facts.live
    if view is None:
        return format_seconds(live.seconds) if live else "not run yet"
    record = view.record
    end = record.cause.value if record.cause else view.state.value
    length = "" if view.seconds is None else f", {format_seconds(view.seconds)}"
    return f"attempt {record.number} {end}{length}"


def _describe_counts(counts: Mapping[str, int]) -> Text:
    words = Text("ledger: ")
    for index, (state, number) in enumerate(counts.items()):
        style = "bold red" if number and state in _ALARMING else ""
        words.append(", " if index else "").append(f"{format_count(number)} {state}", style)
    return words


def _draw_stages(live: Snapshot) -> StageTable:
    rows: list[tuple[Sequence[str], str]] = []
    for stage in live.stages:
        is_slowest = stage.name == live.bottleneck
        style = "bold" if is_slowest else "" if stage.waiting or stage.running else "dim"
        note = _note(stage, "sets the pace" if is_slowest else "")
        rows.append(((escape_text(stage.name), *_format_counts(stage), note), style))
    return StageTable(("stage", *_COLUMNS, ""), rows, _EXPENDABLE)


def _format_counts(stage: StageView) -> Iterator[str]:
    pool = stage.pool
    yield f"{stage.rate:,.1f}"
    yield f"{stage.utilisation:.0%}"
    yield format_count(stage.waiting)
    yield format_count(stage.running)
    yield format_oldest(pool)
    yield f"{pool.ready}/{pool.workers}"
    for number in (stage.tasks_in, stage.tasks_out, stage.failed, pool.lost):
        yield format_count(number)


def _note(stage: StageView, pace: str) -> str:
    lost = stage.pool.deaths
    alarm = f"{format_amount(lost, 'worker')} lost in a row" if lost else ""
    return ", ".join(filter(None, (pace, alarm)))
