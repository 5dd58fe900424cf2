"""A run at this moment, for a terminal: stages, sources by state, failures lately.

Pure: facts in, text out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from strandline.cli.views.attempt import AttemptView
from strandline.cli.views.format import spell_amount, spell_count, spell_seconds, spell_text
from strandline.cli.views.progress import describe_sources, spell_oldest
from strandline.cli.views.snapshot import Snapshot, StageView
from strandline.ledger.entries import FailureRecord, Parked

Failed = FailureRecord | Parked  # the last failure before a source is quarantined, too
LATELY = 6
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
_ALARMING = ("failed", "quarantined")


class TopFacts(NamedTuple):
    """What is shown.

    Attributes:
        name: of the pipeline, or of where its driver is asked.
        attempt: the newest one; None where there is none, or it can't be seen from here.
        live: by the driver's own word a moment ago; None where none says any.
        counts: sources by state, by the ledger; empty where that can't be seen.
        failures: of this attempt, the latest first.
    """

    name: str
    attempt: AttemptView | None = None
    live: Snapshot | None = None
    counts: Mapping[str, int] = {}
    failures: tuple[Failed, ...] = ()


class Lately:
    """Tells which of an attempt's failures are news; the ledger has them in no useful order."""

    def __init__(self) -> None:
        self._attempt = 0
        self._seen: set[str] = set()
        self._latest: deque[Failed] = deque(maxlen=LATELY)

    def take(self, failures: Iterable[Failed], attempt: int = 0) -> tuple[Failed, ...]:
        """Take all there are now of an attempt; returns the latest, newest first."""
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
    """All of it, one below the other."""
    return Group(*_list_parts(facts))


def _list_parts(facts: TopFacts) -> Iterator[RenderableType]:
    yield Text.assemble((spell_text(facts.name), "bold"), "  ", _describe_attempt(facts))
    if facts.live is not None:
        yield Text(describe_sources(facts.live))
    if facts.counts:
        yield _describe_counts(facts.counts)
    if facts.live is not None:
        yield Text()
        yield _draw_stages(facts.live)
    if facts.failures:
        yield Text()
        yield Text("failed lately", style="dim")
        for failure in facts.failures:
            # Without a stage where a process died over it.
            words = ": ".join(filter(None, (failure.key, failure.stage, failure.message)))
            yield Text(spell_text(words), no_wrap=True, overflow="ellipsis")


def _describe_attempt(facts: TopFacts) -> str:
    view, live = facts.attempt, facts.live
    if view is None:
        return spell_seconds(live.seconds) if live else "not run yet"
    record = view.record
    end = record.cause.value if record.cause else view.state.value
    length = "" if view.seconds is None else f", {spell_seconds(view.seconds)}"
    return f"attempt {record.number} {end}{length}"


def _describe_counts(counts: Mapping[str, int]) -> Text:
    words = Text("ledger: ")
    for place, (state, number) in enumerate(counts.items()):
        style = "bold red" if number and state in _ALARMING else ""
        words.append(", " if place else "").append(f"{spell_count(number)} {state}", style)
    return words


def _draw_stages(live: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stage", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for stage in live.stages:
        is_slowest = stage.name == live.bottleneck
        style = "bold" if is_slowest else "" if stage.waiting or stage.running else "dim"
        note = _note(stage, "sets the pace" if is_slowest else "")
        table.add_row(spell_text(stage.name), *_spell(stage), note, style=style)
    return table


def _spell(stage: StageView) -> Iterator[str]:
    pool = stage.pool
    yield f"{stage.rate:,.1f}"
    yield f"{stage.utilisation:.0%}"
    yield spell_count(stage.waiting)
    yield spell_count(stage.running)
    yield spell_oldest(pool)
    yield f"{pool.ready}/{pool.workers}"
    for number in (stage.tasks_in, stage.tasks_out, stage.failed, pool.lost):
        yield spell_count(number)


def _note(stage: StageView, pace: str) -> str:
    lost = stage.pool.deaths
    alarm = f"{spell_amount(lost, 'worker')} lost in a row" if lost else ""
    return ", ".join(filter(None, (pace, alarm)))
