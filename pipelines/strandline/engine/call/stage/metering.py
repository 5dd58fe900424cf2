"""Measures the work done for each source, by stage, in workers, and collects it in the driver.

Most calls only pass a task on and send no event to the ledger. Their efforts wait in the driver,
and travel with the source's next event. This module has no side effects: times are arguments, and
sources are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from strandline.engine.call.stage.receipts import ReceiptDraft, WorkUnit
from strandline.plan.receipt import (
    DROPPED,
    ROOT,
    Effort,
    Event,
    Output,
    Reasons,
    Receipt,
    add_efforts,
    add_reasons,
)
from strandline.plan.task import DeadLetters, Task

# A stage may report any number, but the ledger stores 64 bits.
MOST_ROWS = 2**63 - 1
RAISED = "raised an error"  # reason for rows that were dropped because of an error


def measure_efforts(draft: ReceiptDraft, receipt: Receipt) -> Iterator[tuple[bytes, Effort]]:
    """Yield all efforts of a call by source. Their sum equals the counts of the call.

    Args:
        draft: the draft of the receipt.
        receipt: the finished receipt.
    """
    rows = _RowsBySource(draft, receipt)
    sizes = dict.fromkeys(rows.taken, 0)
    for task in _list_made(draft.data):
        sizes[_source_of(task)] += _measure(task.data) if isinstance(task.data, pa.Table) else 0
    for event in receipt.events:
        for output in event.outputs:
            if isinstance(output, Output) and output.is_data:
                sizes[event.source] += output.size
    weights = dict.fromkeys(rows.taken, 0)
    for source, number in draft.taken:
        # Give an empty task a weight too, because it costs time.
        weights[source] += max(1, number)
    whole = sum(weights.values())
    for source, effort in rows.list_efforts():
        seconds = receipt.counts.seconds * weights[source] / whole
        yield source, effort._replace(seconds=seconds, size=sizes[source])


def find_changes(draft: ReceiptDraft, receipt: Receipt) -> Iterator[tuple[bytes, Effort]]:
    """Yield the efforts of a call, by source, that changed the row count or have reasons."""
    for source, effort in _RowsBySource(draft, receipt).list_efforts():
        if effort.rows_out != effort.rows_in or effort.reasons:
            yield source, effort


def list_roots(taken: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, Effort]]:
    """Yield the row count with which each source enters the pipeline, unless the count is 1.

    Args:
        taken: the source and the row count of each task that entered the first stage.
    """
    yield from ((source, Effort(ROOT, 1, rows)) for source, rows in taken if rows > 1)


class _RowsBySource:
    """Row counts that entered and left a call, by source.

    Attributes:
        taken: rows that entered.
        made: rows that left.
    """

    def __init__(self, draft: ReceiptDraft, receipt: Receipt) -> None:
        self._draft = draft
        self.taken: dict[bytes, int] = {}
        for source, rows in draft.taken:
            self.taken[source] = self.taken.get(source, 0) + rows
        self.made = dict.fromkeys(self.taken, 0)
        for task in _list_made(draft.data):
            self.made[_source_of(task)] += task.num_rows
        for event in receipt.events:
            for output in event.outputs:
                if isinstance(output, Output) and output.is_data:
                    self.made[event.source] += output.rows

    def list_efforts(self) -> Iterator[tuple[bytes, Effort]]:
        """Yield the efforts of each source."""
        reasons = self._find_reasons()
        for source, rows in self.taken.items():
            known = reasons.get(source, ())
            yield source, Effort(self._draft.stage, rows, self.made[source], reasons=known)

    def _find_reasons(self) -> dict[bytes, Reasons]:
        """Return the reasons that a stage counted, by source. Batches are split by lost rows."""
        found: dict[bytes, Reasons] = {}
        for unit in self._draft.units:
            for source, reasons in self._share(unit):
                found[source] = add_reasons(found.get(source, ()), reasons)
        return found

    def _share(self, unit: WorkUnit) -> Iterator[tuple[bytes, Reasons]]:
        reasons = _read_reasons(unit)
        sources = sorted(unit.sources)
        if not reasons:
            return
        if len(sources) == 1:
            yield sources[0], reasons
            return
        lost = {source: self.taken.get(source, 0) - self.made.get(source, 0) for source in sources}
        weights = {source: max(0, rows) for source, rows in lost.items()}
        if not any(weights.values()):  # a reader may drop rows and still return more than it got
            weights = {source: max(1, self.taken.get(source, 0)) for source in sources}
        for reason, number in reasons:
            for source, share in split_by_weight(number, weights).items():
                yield source, ((reason, share),)


def split_by_weight(number: int, weights: Mapping[bytes, int]) -> dict[bytes, int]:
    """Split a number into integer shares that add up to the number. Shares of 0 are omitted."""
    whole, given, passed = sum(weights.values()), 0, 0
    shares = {}
    for source, weight in weights.items():
        passed += weight
        # Round cumulatively, so that the shares add up exactly.
        share = number * passed // whole - given
        given += share
        if share:
            shares[source] = share
    return shares


def _read_reasons(unit: WorkUnit) -> Reasons:
    found = [
        (name.removeprefix(DROPPED), max(0, min(number, MOST_ROWS)))
        for name, number in unit.counts.counters.items()
        if name.startswith(DROPPED)
    ]
    if unit.counts.dropped:
        found.append((RAISED, unit.counts.dropped))
    return tuple(sorted(found))


def settle_efforts(receipt: Receipt) -> Receipt:
    """Move the efforts of each source into the source's last event in the receipt, if any.

    The driver can then forward packed events without unpacking them, unless other efforts wait.
    """
    if not receipt.efforts:
        return receipt
    positions = {event.source: at for at, event in enumerate(receipt.events)}
    settled: dict[bytes, dict[str, Effort]] = {}
    rest = []
    for source, effort in receipt.efforts:
        if source in positions:
            add_efforts(settled.setdefault(source, {}), (effort,))
        else:
            rest.append((source, effort))
    events = list(receipt.events)
    for source, known in settled.items():
        at = positions[source]
        events[at] = events[at]._replace(efforts=(*events[at].efforts, *known.values()))
    return receipt._replace(events=tuple(events), efforts=tuple(rest))


class Meter:
    """Efforts that wait for the next event of their source."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, dict[str, Effort]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def attach(self, receipt: Receipt, failed: Collection[bytes]) -> Receipt:
        """Queue the receipt's efforts, and add all waiting efforts to events of their sources.

        Args:
            receipt: the receipt of a call.
            failed: failed sources, whose efforts are dropped.
        """
        for source, effort in receipt.efforts:
            if source not in failed:
                add_efforts(self._waiting.setdefault(source, {}), (effort,))
        # If no efforts wait, forward packed events without unpacking them.
        is_awaited = self._waiting and any(
            event.source in self._waiting for event in receipt.events
        )
        if not is_awaited:
            return receipt._replace(efforts=()) if receipt.efforts else receipt
        return receipt._replace(events=tuple(map(self._attach, receipt.events)), efforts=())

    def forget(self, source: bytes) -> None:
        """Drop the waiting efforts of a source."""
        self._waiting.pop(source, None)

    def _attach(self, event: Event) -> Event:
        known = self._waiting.pop(event.source, None)
        return event._replace(efforts=(*event.efforts, *known.values())) if known else event


def _list_made(data: Iterable[Task]) -> Iterator[Task]:
    """Yield the tasks that a stage made. Dead letters are counted separately."""
    return (task for task in data if not isinstance(task.data, DeadLetters))


def _measure(table: pa.Table) -> int:
    """Return the size of a table in bytes, ignoring validity bitmaps that mark no nulls.

    A filter adds such bitmaps, and a copy to another process drops them. If they counted, the size
    would depend on where the next stage runs.
    """
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    spare = sum(
        # A validity bitmap has one bit per value, and the offset may be within a byte.
        -(-(chunk.offset + len(chunk)) // 8) - chunk.offset // 8
        for chunk in chunks
        if len(chunk) and not chunk.null_count and chunk.buffers()[0] is not None
    )
    return int(table.nbytes - spare)


def _source_of(task: Task) -> bytes:
    assert task.lineage is not None  # all tasks from the driver have a lineage
    return task.lineage.source


class WaitClock:
    """Measures how long a stage waits for services.

    Args:
        now: returns seconds from any fixed point.

    Attributes:
        note: called with the current time when a wait begins, and with None when the wait ends.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waited = 0.0
        self._depth = 0
        self.note: Callable[[float | None], None] = lambda _: None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure the time in the block as waiting. Nested blocks count once."""
        self._depth += 1
        if self._depth > 1:
            try:
                yield
            finally:
                self._depth -= 1
            return
        begun = self._now()
        self.note(begun)
        try:
            yield
        finally:
            self._depth -= 1
            self._waited += self._now() - begun
            self.note(None)

    def take(self) -> float:
        """Return the seconds of waiting since the previous call of this method."""
        waited, self._waited = self._waited, 0.0
        return waited
