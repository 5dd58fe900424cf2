"""Formats the summary of an attempt: the last lines that a user sees.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strandline.cli.views.failures import GROUPS_SHOWN, describe_failures, describe_groups
from strandline.cli.views.format import (
    align,
    describe_lost_work,
    describe_requests,
    escape_text,
    format_amount,
    format_bytes,
    format_count,
    format_seconds,
)
from strandline.cli.views.running.snapshot_json import render_counts
from strandline.data.statistics.request_figures import read_figures
from strandline.engine.core.pools import PoolState
from strandline.ledger.records.entries import QuarantinedSource, Row
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.failures import FailureGroup
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.insight.funnel import find_sweeping_rules, view_rows

FAILURES_RENDERED = 20
_MANY_FILES, _TINY_BYTES = 1000, 100_000
_COLUMNS = ("stage", "in", "out", "filtered", "failed", "rows in", "rows out", "seconds")


class WrittenFiles(NamedTuple):
    """All output files in the ledger, with their total bytes."""

    files: int
    size: int


class Details(NamedTuple):
    """Facts from the ledger that an outcome does not contain.

    Attributes:
        written: files in the output; None if counting would take long.
        quarantined: the first sources that this attempt put into quarantine.
        quarantine_groups: all sources that it put into quarantine, by cause, stage, and reason.
        is_packable: whether the source could pack small files together but does not.
    """

    written: WrittenFiles | None = None
    quarantined: Sequence[QuarantinedSource] = ()
    quarantine_groups: Sequence[FailureGroup] = ()
    is_packable: bool = False


def describe_outcome(
    outcome: AttemptResult, details: Details, width: int | None = None
) -> list[str]:
    """Describe the summary as lines, with tables of at most `width` characters."""
    return [
        f"{outcome.message} ({_describe_effort(outcome)})",
        *_describe_stages(outcome, width),
        *_describe_counters(outcome.counts, width),
        *_describe_requests(outcome.counts),
        *_describe_parted_rows(outcome.counts),
        *_describe_pools(outcome.pools),
        *describe_failures(outcome.failure_groups, outcome.standing.failed),
        *_describe_commands(outcome),
        *_describe_quarantined(details.quarantine_groups),
        *(f"incident: {incident}" for incident in outcome.incidents),
        *filter(None, [describe_lost_work(outcome.work.lost, outcome.work.worked)]),
        f"output: {outcome.output}{_describe_written(details.written)}",
        *_advise(details),
        *_explain_empty(outcome),
        *_describe_sweeping(outcome),
    ]


def render_outcome(outcome: AttemptResult, details: Details) -> dict[str, Any]:
    """Render the last line of `run --json`; its keys are stable."""
    return {
        "event": "outcome",
        **outcome.to_json(),
        "stages": render_counts(outcome.counts, outcome.pools),
        "failures": [
            {"key": failure.key, "stage": failure.stage, "message": failure.message}
            for failure in outcome.failures[:FAILURES_RENDERED]
        ],
        "quarantined": [
            {"key": entry.key, "cause": entry.cause, "message": entry.message}
            for entry in details.quarantined
        ],
    }


def _describe_effort(outcome: AttemptResult) -> str:
    standing = outcome.standing
    parts = [f"attempt {outcome.attempt}", format_seconds(outcome.seconds)]
    if standing.finished and standing.skipped:
        parts.append(f"{format_count(standing.skipped)} skipped")
    if standing.removed:
        parts.append(f"{format_count(standing.removed)} no longer listed")
    return ", ".join(parts)


def _describe_stages(outcome: AttemptResult, width: int | None) -> Iterator[str]:
    counts = outcome.counts
    if not any(each.tasks_in for each in counts.values()):
        return
    rows = [_COLUMNS]
    for name, each in counts.items():
        numbers = (each.tasks_in, each.tasks_out, each.filtered, each.failed)
        rows_seen = (each.rows_in, each.rows_out)
        cells = map(format_count, numbers + rows_seen)
        rows.append((name, *cells, f"{each.seconds:,.1f}"))  # type: ignore[arg-type]
    yield ""
    if outcome.attempt > 1:  # earlier attempts have processed sources, too
        yield "in this attempt:"
    yield from align(rows, 1, width)
    yield ""


def _describe_counters(counts: dict[str, StageCounts], width: int | None) -> Iterator[str]:
    rows = [
        (name, counter, format_count(number))
        for name, each in counts.items()
        for counter, number in sorted(each.counters.items())
    ]
    if rows:
        yield from align(rows, 2, width)
        yield ""


def _describe_requests(counts: Mapping[str, StageCounts]) -> Iterator[str]:
    for name, each in counts.items():
        figures = read_figures(each.counters)
        if figures.has_any:
            yield f"{name}: {describe_requests(figures)}"


def _describe_parted_rows(counts: Mapping[str, StageCounts]) -> Iterator[str]:
    """Yield the numbers of dead letters and dropped rows, with the command that lists them."""
    dead = _list_amounts({name: each.dead for name, each in counts.items()})
    dropped = _list_amounts({name: each.dropped for name, each in counts.items()})
    if dead:
        yield f"dead letters: {dead}; `strandline failures FILE` shows why"
    if dropped:
        yield f"dropped because of errors: {dropped}"


def _list_amounts(numbers: Mapping[str, int]) -> str:
    parts = [
        f"{format_amount(number, 'row')} of {name}" for name, number in numbers.items() if number
    ]
    return ", ".join(parts)


def _describe_pools(pools: Mapping[str, PoolState]) -> Iterator[str]:
    """Yield a line for each stage that lost or recycled workers."""
    for name, pool in pools.items():
        changes = {"lost": pool.lost, "recycled": pool.recycled}
        parts = [f"{format_count(number)} {what}" for what, number in changes.items() if number]
        if parts:
            yield f"workers of {name}: {format_count(pool.started)} started, {', '.join(parts)}"


def _describe_commands(outcome: AttemptResult) -> Iterator[str]:
    """Yield the command for the full list if the ledger has more failures than are shown."""
    failed = outcome.standing.failed
    # The summary shows one example of each group, so it is complete only if every group has a
    # single source.
    is_shown = len(outcome.failure_groups) == failed <= GROUPS_SHOWN
    if failed and outcome.attempt and not is_shown:
        yield "  all of them: `strandline failures FILE`"


def _describe_quarantined(groups: Sequence[FailureGroup]) -> Iterator[str]:
    if not groups:
        return
    total = sum(group.count for group in groups)
    yield "quarantined now:"
    yield from describe_groups(groups, total)
    if total > len(groups) or total > GROUPS_SHOWN:
        yield "  all of them: `strandline ledger quarantine list FILE`"


def _describe_written(written: WrittenFiles | None) -> str:
    if written is None:
        return ""
    return f" ({format_amount(written.files, 'file')}, {format_bytes(written.size)})"


def _advise(details: Details) -> Iterator[str]:
    """If there are very many tiny files, yield a hint about fewer and larger files."""
    written = details.written
    if not (details.is_packable and written is not None and written.files >= _MANY_FILES):
        return
    mean = written.size / written.files
    if mean < _TINY_BYTES:
        yield (
            f"hint: {format_count(written.files)} files of {format_bytes(round(mean))} on average; "
            "`buckets: 32` in the source packs small sources together (and starts the run over)"
        )


def _explain_empty(outcome: AttemptResult) -> Iterator[str]:
    """If nothing was written, yield a hint about the stage that dropped most rows."""
    stages = list(outcome.counts.items())
    # The last stage is the sink, and all rows that reach the sink are written.
    if not stages or not outcome.standing.finished or stages[-1][1].rows_in:
        return
    dropping = [(each.filtered, name) for name, each in stages if each.filtered]
    if dropping:
        yield (
            f"hint: nothing was written; {max(dropping)[1]} dropped most rows, and its counts "
            "above show why"
        )


def _describe_sweeping(outcome: AttemptResult) -> Iterator[str]:
    for rule in find_sweeping_rules(view_rows(outcome.counts)):
        yield f"hint: {escape_text(str(rule))}; check that the rule suits these rows"


def describe_failure(row: Row) -> str:
    """Describe a source: its key and, after a failure, cause, stage, and message."""
    words = (row.key, row.cause, row.stage, row.message)
    return escape_text(": ".join(word for word in words if word))
