"""Formats a running attempt as a table for a terminal, or as one line for a log.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from strandline.cli.views.format import (
    escape_text,
    format_amount,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
)
from strandline.cli.views.running.snapshot import Snapshot
from strandline.engine.core.pools import PoolState

# From this number of sources on, finished sources show the progress well enough, so rows are
# omitted.
MANY_SOURCES = 500
_COLUMNS = ("stage", "in", "out", "waiting", "running", "oldest", "tasks/s", "busy", "workers")
# Columns to leave out in a narrow terminal, the least important first.
_EXPENDABLE = ("in", "tasks/s", "busy", "running", "workers", "oldest")
_GAP = 2
_LEAST_NAME = 8
_LONGEST_NAME = 24  # longer names are shortened before columns are left out


@dataclass(frozen=True, slots=True)
class StageTable:
    """A table that fits its terminal without cutting numbers. The first column is the stage's name.

    Attributes:
        columns: headings.
        rows: the cells of a row, one for each column, and a style.
        expendable: headings of columns that may be left out, in this order.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], str]]
    expendable: Sequence[str]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        shown = list(range(len(self.columns)))
        for name in self.expendable:
            if self._measure(shown) <= options.max_width:
                break
            shown.remove(self.columns.index(name))
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
        name_room = max(_LEAST_NAME, options.max_width - self._measure(shown[1:]) - _GAP)
        for index in shown:
            # Only the column of notes has no heading, and its cells are text.
            is_number = index > 0 and bool(self.columns[index])
            justify: JustifyMethod = "right" if is_number else "left"
            table.add_column(self.columns[index], justify=justify, no_wrap=True)
        for cells, style in self.rows:
            first = Text(cells[0])
            first.truncate(name_room, overflow="ellipsis")
            table.add_row(first, *(cells[index] for index in shown[1:]), style=style)
        yield table

    def _measure(self, shown: Sequence[int]) -> int:
        rows = [self.columns, *(cells for cells, _ in self.rows)]
        widths = [max(len(cells[index]) for cells in rows) for index in shown]
        if 0 in shown:  # prefer another column to the end of a long name
            widths[shown.index(0)] = min(widths[shown.index(0)], _LONGEST_NAME)
        return sum(widths) + _GAP * (len(widths) - 1)


def describe_sources(snapshot: Snapshot) -> str:
    """Describe the sources: `40 of 100 sources finished, 1 failed; 3.2/s, about 19 s left`."""
    if not snapshot.listed:
        return "starting"
    listed = format_count(snapshot.listed) + ("" if snapshot.is_listed else "+")
    parts = [f"{format_count(snapshot.finished)} of {listed} sources finished"]
    if snapshot.failed:
        parts.append(f"{format_count(snapshot.failed)} failed")
    if snapshot.skipped:
        parts.append(f"{format_count(snapshot.skipped)} skipped")
    if snapshot.quarantined:
        parts.append(f"{format_count(snapshot.quarantined)} quarantined")
    if snapshot.incidents:
        parts.append(format_amount(snapshot.incidents, "incident"))
    rows = describe_rows(snapshot)
    parts += [rows] if rows else []
    pace = f"; {format_rate(snapshot.rate)}" if snapshot.rate else ""
    left = snapshot.seconds_left
    ahead = f", about {format_seconds(left)} left" if left else ""
    return ", ".join(parts) + pace + ahead


def describe_rows(snapshot: Snapshot) -> str:
    """Describe the number of rows. Return an empty string if the sources show the progress."""
    rows = snapshot.rows
    if snapshot.listed > MANY_SOURCES or not rows.read:
        return ""
    if not rows.written:
        return f"{format_amount(rows.read, 'row')} read"
    return f"{format_amount(rows.written, 'row')} ({format_bytes(rows.size)}) written"


def describe_line(snapshot: Snapshot) -> str:
    """Describe the attempt in one line, for a log."""
    busy = [
        f"{stage.name} {stage.waiting}+{stage.running}"
        for stage in snapshot.stages
        if stage.waiting or stage.running
    ]
    queues = f" | waiting+running: {', '.join(busy)}" if busy else ""
    pace = f" | {snapshot.bottleneck} sets the pace" if snapshot.bottleneck else ""
    longest = describe_longest(snapshot)
    long = f" | {longest}" if longest else ""
    return f"{format_seconds(snapshot.seconds)}: {describe_sources(snapshot)}{queues}{pace}{long}"


def format_oldest(pool: PoolState) -> str:
    """Return the duration of the longest-running call as text, empty if no call is running."""
    return format_seconds(pool.oldest) if pool.oldest else ""


def describe_longest(snapshot: Snapshot) -> str:
    """Describe the longest-running call with stage and source; empty if no call is long."""
    longest = max(snapshot.stages, key=lambda stage: stage.pool.oldest, default=None)
    if longest is None or not longest.pool.over:
        return ""
    stage = f"in {longest.name}, over {escape_text(longest.pool.over)}"
    return f"longest call: {format_oldest(longest.pool)} {stage}"


def draw(name: str, snapshot: Snapshot) -> Group:
    """Return the attempt as a headline and a table of stages."""
    head = Text.assemble((name, "bold"), "  ", (format_seconds(snapshot.seconds), "dim"))
    rows: list[tuple[Sequence[str], str]] = []
    for stage in snapshot.stages:
        is_slowest = stage.name == snapshot.bottleneck
        style = "bold" if is_slowest else "" if stage.waiting or stage.running else "dim"
        numbers = (stage.tasks_in, stage.tasks_out, stage.waiting, stage.running)
        oldest = format_oldest(stage.pool)
        measured = (
            oldest,
            f"{stage.rate:,.1f}",
            f"{stage.utilisation:.0%}",
            str(stage.pool.workers),
        )
        rows.append(((stage.name, *map(format_count, numbers), *measured), style))
    pace = [Text(f"{snapshot.bottleneck} sets the pace")] if snapshot.bottleneck else []
    tables = [StageTable(_COLUMNS, rows, _EXPENDABLE)] if rows else []
    longest = describe_longest(snapshot)
    long = [Text(longest, no_wrap=True, overflow="ellipsis")] if longest else []
    return Group(head, Text(describe_sources(snapshot)), *tables, *pace, *long)
