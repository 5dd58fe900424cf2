"""How a running attempt looks: a table for a terminal, one line for a log.

Pure: snapshots in, text out.
"""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from strandline.cli.views.format import spell_amount, spell_count, spell_rate, spell_seconds
from strandline.cli.views.snapshot import Snapshot
from strandline.engine.core.pools import PoolState


def describe_sources(snapshot: Snapshot) -> str:
    """How the sources stand: `40 of 100 sources finished, 1 failed; 3.2/s, about 19 s left`."""
    if not snapshot.listed:
        return "starting"
    listed = spell_count(snapshot.listed) + ("" if snapshot.is_listed else "+")
    parts = [f"{spell_count(snapshot.finished)} of {listed} sources finished"]
    if snapshot.failed:
        parts.append(f"{spell_count(snapshot.failed)} failed")
    if snapshot.skipped:
        parts.append(f"{spell_count(snapshot.skipped)} skipped")
    if snapshot.quarantined:
        parts.append(f"{spell_count(snapshot.quarantined)} quarantined")
    if snapshot.incidents:
        parts.append(spell_amount(snapshot.incidents, "incident"))
    pace = f"; {spell_rate(snapshot.rate)}" if snapshot.rate else ""
    left = snapshot.seconds_left
    ahead = f", about {spell_seconds(left)} left" if left else ""
    return ", ".join(parts) + pace + ahead


def describe_line(snapshot: Snapshot) -> str:
    """The attempt in one line, for a log."""
    busy = [
        f"{stage.name} {stage.waiting}+{stage.running}"
        for stage in snapshot.stages
        if stage.waiting or stage.running
    ]
    queues = f" | waiting+running: {', '.join(busy)}" if busy else ""
    pace = f" | {snapshot.bottleneck} sets the pace" if snapshot.bottleneck else ""
    return f"{spell_seconds(snapshot.seconds)}: {describe_sources(snapshot)}{queues}{pace}"


def spell_oldest(pool: PoolState) -> str:
    """How long the oldest call under way takes; empty where there is none."""
    return spell_seconds(pool.oldest) if pool.oldest else ""


def draw(name: str, snapshot: Snapshot) -> Group:
    """The attempt as a headline and a table of its stages."""
    head = Text.assemble((name, "bold"), "  ", (spell_seconds(snapshot.seconds), "dim"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stage", no_wrap=True)
    for column in ("in", "out", "waiting", "running", "oldest", "tasks/s", "busy", "workers"):
        table.add_column(column, justify="right", no_wrap=True)
    for stage in snapshot.stages:
        is_slowest = stage.name == snapshot.bottleneck
        style = "bold" if is_slowest else "" if stage.waiting or stage.running else "dim"
        numbers = (stage.tasks_in, stage.tasks_out, stage.waiting, stage.running)
        oldest = spell_oldest(stage.pool)
        measured = (
            oldest,
            f"{stage.rate:,.1f}",
            f"{stage.utilisation:.0%}",
            str(stage.pool.workers),
        )
        table.add_row(stage.name, *map(spell_count, numbers), *measured, style=style)
    pace = [Text(f"{snapshot.bottleneck} sets the pace")] if snapshot.bottleneck else []
    return Group(head, Text(describe_sources(snapshot)), table, *pace)
