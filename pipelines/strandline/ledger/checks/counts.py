"""Counts of a ledger's sources, files, and rows, shared by all commands and pages.

All numbers describe the present state, so they are the same for a run that was changed, killed, or
retried and for a fresh run. In contrast, `run.insight` records the work of all attempts, which may
be more. This module only reads. It must not depend on the wording of reports.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.ledger.records.entries import SourceRecord, SourceState
from strandline.ledger.store.recipes import read_recipes
from strandline.ledger.store.rows import find_refused, list_failed
from strandline.ledger.store.store import Store
from strandline.plan.receipt import ROOT, Reasons, RowChange, add_reasons

# Key in `meta`, set once a pipeline that may leave dead letters has run. Without the key, no
# records are read to count dead letters.
MAY_HAVE_DEAD_LETTERS = "dead letters"


def count_sources(store: Store) -> dict[str, int]:
    """Count the sources by state. A source is in exactly one state.

    A finished source counts as failed if its replacement failed.
    """
    counts = store.count()
    if counts[SourceState.FAILED] or counts[SourceState.QUARANTINED]:
        counts[SourceState.FINISHED] -= len(find_refused(store))
        counts[SourceState.FAILED] = sum(1 for _ in list_failed(store))
    return counts


class DeadLetterCounts(NamedTuple):
    """Dead letters by stage, and the sources that have dead letters.

    Attributes:
        rows: number of rows by the stage in which they failed.
        sources: number of sources with dead letters.
    """

    rows: Counter[str]
    sources: int

    @property
    def total(self) -> int:
        """Number of dead letters of all stages."""
        return self.rows.total()


def count_dead_letters(store: Store) -> DeadLetterCounts:
    """Count the dead letters of all finished sources."""
    rows: Counter[str] = Counter()
    sources = 0
    if store.read_meta(MAY_HAVE_DEAD_LETTERS) is not None:
        for _, _, record in store.list_records():
            dead = record.count_dead()
            rows.update(dead)
            sources += bool(dead)
    return DeadLetterCounts(rows, sources)


@dataclass(slots=True)
class DataCounts:
    """Files, bytes, and rows of the data that the ledger names.

    Attributes:
        suffixes: number of files by suffix, such as `.parquet`.
    """

    files: int = 0
    size: int = 0
    rows: int = 0
    suffixes: Counter[str] = field(default_factory=Counter)

    def add(self, record: SourceRecord) -> None:
        """Add a source's bytes, rows, and own files. `add_file` adds shared files."""
        for output in record.data:
            if output.part is None:
                self.add_file(output.suffix)
            self.size += output.size
            self.rows += output.rows

    def add_file(self, suffix: str) -> None:
        """Add a file without its bytes and rows."""
        self.files += 1
        self.suffixes[suffix] += 1


class StageTotals(NamedTuple):
    """Row counts of one stage, summed over finished sources.

    Attributes:
        rows_in: rows that reached the stage.
        rows_out: rows that left the stage.
        dead: rows that raised an error in the stage and are dead letters.
        reasons: number of dropped rows by reason, largest first.
    """

    name: str
    rows_in: int = 0
    rows_out: int = 0
    dead: int = 0
    reasons: Reasons = ()

    @property
    def share_kept(self) -> float | None:
        """Share of rows that the stage has kept, or None if the stage has received no rows.

        If rows were dropped, the total is the sum of kept and dropped rows, because a stage that
        reads files receives fewer rows than it finds.
        """
        dropped = sum(number for _, number in self.reasons) + self.dead
        rows = self.rows_out + dropped if dropped else self.rows_in
        return self.rows_out / rows if rows else None


@dataclass(slots=True)
class FinishedCounts:
    """Counts of all finished sources.

    Attributes:
        data: files for readers.
        stages: row counts by stage, in the order of the pipeline, without the source stage.
        counted: number of sources included in `stages`.
        uncounted: number of sources with missing or inconsistent row counts.
        dead: dead letters.
    """

    data: DataCounts = field(default_factory=DataCounts)
    stages: tuple[StageTotals, ...] = ()
    counted: int = 0
    uncounted: int = 0
    dead: DeadLetterCounts = field(default_factory=lambda: DeadLetterCounts(Counter(), 0))


def count_finished(store: Store) -> FinishedCounts:
    """Count files and rows of all finished sources."""
    counts, flow, orders = FinishedCounts(), _Flow(), _read_orders(store)
    dead_rows: Counter[str] = Counter()
    dead_sources = 0
    for _, entry, record in store.list_records():
        counts.data.add(record)
        dead = record.count_dead()
        dead_rows.update(dead)
        dead_sources += bool(dead)
        if flow.add(record, dead, orders.find(entry.attempt)):
            counts.counted += 1
        else:
            counts.uncounted += 1
    counts.dead = DeadLetterCounts(dead_rows, dead_sources)
    _add_shared(store, counts.data)
    counts.stages = flow.list_stages(orders.last)
    return counts


def count_data(store: Store) -> DataCounts:
    """Count the files, bytes, and rows of all finished sources."""
    data = DataCounts()
    for _, _, record in store.list_records():
        data.add(record)
    _add_shared(store, data)
    return data


def _add_shared(store: Store, data: DataCounts) -> None:
    for _, shared in store.list_shared():
        for suffix, *_ in shared.list_files():
            data.add_file(suffix)


class _Orders:
    """Ordered stage names of each attempt.

    Args:
        since: first attempt of each recipe.
        names: stage names of each recipe.
    """

    def __init__(self, since: Sequence[int], names: Sequence[tuple[str, ...]]) -> None:
        self._since, self._names = since, names
        self.last = names[-1] if names else ()

    def find(self, attempt: int) -> tuple[str, ...]:
        """Return the stage names of an attempt, in order."""
        at = max(0, bisect_right(self._since, attempt) - 1)
        return self._names[at] if self._names else ()


def _read_orders(store: Store) -> _Orders:
    recipes = read_recipes(store)
    names = [tuple(each.parts.get("order", ()))[1:] for each in recipes]
    return _Orders([each.since for each in recipes], names)


class _Flow:
    """Sums of row counts per stage."""

    def __init__(self) -> None:
        self._in: Counter[str] = Counter()
        self._out: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._reasons: dict[str, Reasons] = {}

    def add(self, record: SourceRecord, dead: Mapping[str, int], stages: Sequence[str]) -> bool:
        """Add a source. Return False if its changes do not add up to the number of written rows.

        Older releases recorded no changes, so their sources are not added.
        """
        known = {change.stage: change for change in record.changes}
        written = sum(output.rows for output in record.data)
        # A source starts as one row, so 1 plus all changes must equal the number of written rows.
        if not stages or 1 + sum(change.rows for change in record.changes) != written:
            return False
        if not known.keys() <= {ROOT, *stages}:  # a stage was renamed
            return False
        rows = 1 + _find_change(known, ROOT).rows
        for stage in stages:
            change = _find_change(known, stage)
            self._in[stage] += rows
            rows += change.rows
            self._out[stage] += rows
            self._reasons[stage] = add_reasons(self._reasons.get(stage, ()), change.reasons)
        self._dead.update(dead)
        return True

    def list_stages(self, order: Iterable[str]) -> tuple[StageTotals, ...]:
        """Return the sums by stage, in the given order. Stages that the order lacks come last."""
        names = dict.fromkeys([*order, *self._in])
        return tuple(map(self._sum_up, names))

    def _sum_up(self, stage: str) -> StageTotals:
        reasons = sorted(self._reasons.get(stage, ()), key=lambda each: (-each[1], each[0]))
        return StageTotals(
            stage, self._in[stage], self._out[stage], self._dead[stage], tuple(reasons)
        )


def _find_change(known: Mapping[str, RowChange], stage: str) -> RowChange:
    return known.get(stage, RowChange(stage, 0))
