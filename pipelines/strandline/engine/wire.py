"""How tasks and receipts cross between processes: as plain lists.

Ray's serializer calls back into Python for every object of a class of ours, and for every tuple;
at batches of small tasks that costs more than the work of moving them. Pure; what a field means is
the classes' to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

import pyarrow as pa

from strandline.engine.slots import Slot
from strandline.engine.table_wire import pack_table, unpack_table
from strandline.plan.receipt import (
    Counts,
    Effort,
    Emitted,
    Event,
    Failure,
    Left,
    Output,
    Piece,
    Receipt,
)
from strandline.plan.task import Lineage, Origin, Task

Plain = list[Any]


def pack_tasks(tasks: Iterable[Task]) -> list[Plain]:
    """Tasks as [data, meta, source, token, key, origin, whether the data is a packed table]."""
    return [
        [data, task.meta, source, token, key, origin and list(origin), is_packed]
        for task in tasks
        if task.lineage
        for source, token, key, origin in (task.lineage,)
        for data, is_packed in (_pack_data(task.data),)
    ]


def unpack_task(packed: Plain) -> Task:
    """One task of what `pack_tasks` made."""
    data, meta, source, token, key, origin, is_packed = packed
    data = unpack_table(data) if is_packed else data
    return Task(data, meta, Lineage(source, token, key, origin and Origin(*origin)))


def _pack_data(data: Any) -> tuple[Any, bool]:  # noqa: ANN401 - the payload belongs to the user
    packed = pack_table(data) if isinstance(data, pa.Table) else None
    return (data, False) if packed is None else (packed, True)


def pack_batch(batch: Iterable[Slot]) -> tuple[list[list[int]], list[Any]]:
    """Where each task of a batch is among the blocks, and these; a block that is shared is once."""
    own: list[Any] = []
    blocks: list[Any] = [own]
    numbers: dict[int, int] = {}
    picks = []
    for slot in batch:
        if isinstance(slot.block, list):  # a root task, which the driver holds itself
            picks.append([0, len(own)])
            own.append(slot.block[slot.place])
            continue
        number = numbers.get(id(slot.block))
        if number is None:
            number = numbers[id(slot.block)] = len(blocks)
            blocks.append(slot.block)
        picks.append([number, slot.place])
    return picks, blocks


def pack_receipt(receipt: Receipt) -> Plain:
    """A receipt as [events, failures, emitted, counts, efforts]."""
    return [
        pack_events(receipt.events),
        [list(failure) for failure in receipt.failures],
        [
            [place, source, token, origin and list(origin)]
            for place, source, token, origin in receipt.emitted
        ],
        list(astuple(receipt.counts)),
        [[source, *effort] for source, effort in receipt.efforts],
    ]


def unpack_receipt(packed: Plain) -> Receipt:
    """The inverse of `pack_receipt`; what was put behind it is not looked at."""
    events, failures, emitted, counts, efforts, *_ = packed
    return Receipt(
        tuple(unpack_events(events)),
        tuple(Failure(*failure) for failure in failures),
        tuple(
            Emitted(place, source, token, origin and Origin(*origin))
            for place, source, token, origin in emitted
        ),
        Counts(*counts),
        tuple((source, Effort(*effort)) for source, *effort in efforts),
    )


def pack_events(events: Iterable[Event]) -> list[Plain]:
    """Events as [source, settled, children, outputs, efforts]."""
    return [
        [source, list(settled), list(children), [*map(list, outputs)], [*map(list, efforts)]]
        for source, settled, children, outputs, efforts in events
    ]


def unpack_events(packed: Iterable[Plain]) -> list[Event]:
    """The inverse of `pack_events`."""
    return [
        Event(
            source,
            tuple(settled),
            tuple(children),
            tuple(map(_unpack_left, outputs)),
            tuple(Effort(*one) for one in efforts),
        )
        for source, settled, children, outputs, efforts in packed
    ]


def _unpack_left(packed: Plain) -> Left:
    # A piece begins with the name of its stage, an output with its token.
    return Piece(*packed) if isinstance(packed[0], str) else Output(*packed)
