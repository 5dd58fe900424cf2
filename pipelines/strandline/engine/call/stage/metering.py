"""What was done for each source, stage by stage: shared out in workers, collected in the driver.

Most calls pass a task on and say nothing to the ledger; so their efforts wait here for the source's
next event and travel with it. Pure: times come in, and what a source is is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from strandline.plan.receipt import Effort, Event, Output, Receipt, add_efforts
from strandline.plan.task import DeadLetters, Task


def share_out(
    stage: str, taken: Sequence[tuple[bytes, int]], data: Sequence[Task], receipt: Receipt
) -> Iterator[tuple[bytes, Effort]]:
    """Yield a call's efforts by source; together they are what its counts say.

    Args:
        taken: the source and the rows of each task that went in, as they were then.
        data: what came out.
    """
    rows_in: dict[bytes, int] = {}
    weights: dict[bytes, int] = {}
    for source, rows in taken:
        rows_in[source] = rows_in.get(source, 0) + rows
        weights[source] = weights.get(source, 0) + max(1, rows)
    rows_out = dict.fromkeys(rows_in, 0)
    sizes = dict.fromkeys(rows_in, 0)
    for task in data:
        if isinstance(task.data, DeadLetters):  # counted by themselves
            continue
        rows_out[_source_of(task)] += task.num_rows
        sizes[_source_of(task)] += _measure(task.data) if isinstance(task.data, pa.Table) else 0
    for event in receipt.events:
        for output in event.outputs:
            if isinstance(output, Output) and output.is_data:
                rows_out[event.source] += output.rows
                sizes[event.source] += output.size
    whole = sum(weights.values())
    for source, rows in rows_in.items():
        seconds = receipt.counts.seconds * weights[source] / whole
        yield source, Effort(stage, rows, rows_out[source], seconds, sizes[source])


class Meter:
    """Efforts that wait for the next event of their source."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, dict[str, Effort]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def attach(self, receipt: Receipt, failed: Collection[bytes]) -> Receipt:
        """Return the receipt with all that was done for its events' sources, this call included.

        Args:
            failed: sources of which nothing is to be kept.
        """
        if not receipt.efforts:
            return receipt
        for source, effort in receipt.efforts:
            if source not in failed:
                add_efforts(self._waiting.setdefault(source, {}), (effort,))
        return receipt._replace(events=tuple(map(self._attach, receipt.events)), efforts=())

    def forget(self, source: bytes) -> None:
        """Take back what waits of a source."""
        self._waiting.pop(source, None)

    def _attach(self, event: Event) -> Event:
        known = self._waiting.pop(event.source, None)
        return event._replace(efforts=tuple(known.values())) if known else event


def _measure(table: pa.Table) -> int:
    """Return the bytes of a table without validity bitmaps that mark no null.

    A filter adds such bitmaps and a copy to another process drops them, so they would make the
    size depend on where the next stage runs.
    """
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    spare = sum(
        -(-(chunk.offset + len(chunk)) // 8) - chunk.offset // 8
        for chunk in chunks
        if len(chunk) and not chunk.null_count and chunk.buffers()[0] is not None
    )
    return int(table.nbytes - spare)


def _source_of(task: Task) -> bytes:
    assert task.lineage is not None  # the driver only hands out tasks that have one
    return task.lineage.source
