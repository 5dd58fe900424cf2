"""What an attempt came to, as the last lines a person reads.

Pure: outcome and ledger facts in, text out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strandline.cli.views.format import (
    align,
    spell_amount,
    spell_bytes,
    spell_count,
    spell_seconds,
    spell_text,
)
from strandline.cli.views.snapshot import spell_counts
from strandline.engine.core.pools import PoolState
from strandline.ledger.entries import FailureRecord, Parked
from strandline.plan.receipt import Counts
from strandline.run.attempt.outcome import Outcome

FAILURES_SHOWN = 10
_COLUMNS = ("stage", "in", "out", "filtered", "failed", "rows in", "rows out", "seconds")


class Written(NamedTuple):
    """All that the ledger knows to lie in the output: files and their bytes."""

    files: int
    size: int


class Details(NamedTuple):
    """What the ledger adds to an outcome.

    Attributes:
        failures: of this attempt, the first ones.
        written: None where counting would take long.
        parked: sources that this attempt has put into quarantine, the first ones.
    """

    failures: Sequence[FailureRecord] = ()
    written: Written | None = None
    parked: Sequence[Parked] = ()


def describe_outcome(outcome: Outcome, details: Details) -> list[str]:
    """The summary as lines."""
    return [
        f"{outcome.message} ({_describe_effort(outcome)})",
        *_describe_stages(outcome.counts),
        *_describe_counters(outcome.counts),
        *_describe_pools(outcome.pools),
        *_describe_failures(outcome, details.failures),
        *_describe_parked(details.parked),
        *(f"incident: {incident}" for incident in outcome.incidents),
        f"output: {outcome.output}{_describe_written(details.written)}",
    ]


def spell_outcome(outcome: Outcome, details: Details) -> dict[str, Any]:
    """The last line of `run --json`; its keys are stable."""
    return {
        "event": "outcome",
        **outcome.to_json(),
        "stages": spell_counts(outcome.counts, outcome.pools),
        "failures": [
            {"key": failure.key, "stage": failure.stage, "message": failure.message}
            for failure in details.failures
        ],
        "quarantined": [
            {"key": entry.key, "cause": entry.cause, "message": entry.message}
            for entry in details.parked
        ],
    }


def _describe_effort(outcome: Outcome) -> str:
    standing = outcome.standing
    parts = [f"attempt {outcome.attempt}", spell_seconds(outcome.seconds)]
    if standing.finished and standing.skipped:
        parts.append(f"{spell_count(standing.skipped)} skipped")
    if standing.removed:
        parts.append(f"{spell_count(standing.removed)} no longer listed")
    return ", ".join(parts)


def _describe_stages(counts: dict[str, Counts]) -> Iterator[str]:
    if not any(each.tasks_in for each in counts.values()):
        return
    rows = [_COLUMNS]
    for name, each in counts.items():
        numbers = (each.tasks_in, each.tasks_out, each.filtered, each.failed)
        rows_seen = (each.rows_in, each.rows_out)
        cells = map(spell_count, numbers + rows_seen)
        rows.append((name, *cells, f"{each.seconds:,.1f}"))  # type: ignore[arg-type]
    yield ""
    yield from align(rows)
    yield ""


def _describe_counters(counts: dict[str, Counts]) -> Iterator[str]:
    rows = [
        (name, counter, spell_count(number))
        for name, each in counts.items()
        for counter, number in sorted(each.counters.items())
    ]
    if rows:
        yield from align(rows, left=2)
        yield ""


def _describe_pools(pools: Mapping[str, PoolState]) -> Iterator[str]:
    """Only where something has become of workers."""
    for name, pool in pools.items():
        changes = {"lost": pool.lost, "recycled": pool.recycled}
        parts = [f"{spell_count(number)} {what}" for what, number in changes.items() if number]
        if parts:
            yield f"workers of {name}: {spell_count(pool.started)} started, {', '.join(parts)}"


def _describe_failures(outcome: Outcome, failures: Sequence[FailureRecord]) -> Iterator[str]:
    if not outcome.standing.failed:
        return
    yield f"{spell_amount(outcome.standing.failed, 'source')} failed:"
    shown = failures[:FAILURES_SHOWN]
    for failure in shown:
        yield spell_text(f"  {failure.key}: {failure.stage}: {failure.message}")
    rest = outcome.standing.failed - len(shown)
    if rest > 0:
        yield f"  and {spell_count(rest)} more; see `strandline ledger sources --state failed`"


def _describe_parked(parked: Sequence[Parked]) -> Iterator[str]:
    if not parked:
        return
    yield "quarantined now:"
    for entry in parked[:FAILURES_SHOWN]:
        where = f"{entry.stage}: " if entry.stage else ""
        yield spell_text(f"  {entry.key}: {entry.cause}: {where}{entry.message}")
    if len(parked) > FAILURES_SHOWN:
        yield "  and more; see `strandline ledger quarantine list`"


def _describe_written(written: Written | None) -> str:
    if written is None:
        return ""
    return f" ({spell_amount(written.files, 'file')}, {spell_bytes(written.size)})"
