"""How tasks and receipts cross between processes: as plain lists.

Ray's serializer calls back into Python for every object of a class of ours, and for every tuple;
at batches of small tasks that costs more than the work of moving them. Pure; what a field means is
the classes' to say.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

import pyarrow as pa

from strandline.engine.call.payloads import Dumps, dump, is_safe, is_unchanging, load
from strandline.engine.call.slots import Slot
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

SMALL_BYTES = 1 << 17


def pack_table(table: pa.Table) -> bytes | None:
    """A table as bytes; None where it is large, or might not come back as it was.

    Its chunks would be cut anew, and types of the user's own come back as what they are made of.
    """
    if not table.num_columns or not table.num_rows or table.nbytes > SMALL_BYTES:
        return None
    if not all(column.num_chunks == 1 and _is_plain(column.type) for column in table.columns):
        return None
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = target.getvalue().to_pybytes()
    return packed


def unpack_table(packed: bytes) -> pa.Table:
    """The inverse of `pack_table`."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def _is_plain(kind: pa.DataType) -> bool:
    is_own = isinstance(kind, pa.BaseExtensionType)
    return not (is_own or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))


Plain = list[Any]


# How the data of a packed task is spelled.
_AS_IT_IS, _TABLE, _PICKLED = 0, 1, 2


def pack_tasks(
    tasks: Iterable[Task], dumps: Dumps = pickle.dumps, *, is_local: bool = False
) -> list[Plain]:
    """Tasks as [data, meta, source, token, key, origin, how the data is spelled].

    Args:
        dumps: pickles payloads that may not cross as they are.
        is_local: they stay in this process, and only must not be changed behind their back.

    Raises:
        BaseException: a payload can't be pickled.
    """
    pack = _pack_here if is_local else _pack_away
    return [
        [data, meta, source, token, key, origin and list(origin), form]
        for task in tasks
        if task.lineage
        for source, token, key, origin in (task.lineage,)
        for data, meta, form in (pack(task.data, task.meta, dumps),)
    ]


def unpack_task(packed: Plain) -> Task:
    """One task of what `pack_tasks` made.

    Raises:
        BaseException: its payload can't be read.
    """
    data, meta, *_, form = packed
    if form == _TABLE:
        data = unpack_table(data)
    elif form == _PICKLED:
        data, meta = load(data, meta)
    return Task(data, meta, read_lineage(packed))


def read_lineage(packed: Plain) -> Lineage:
    """The lineage of a packed task; its payload is not looked at."""
    _, _, source, token, key, origin, _ = packed
    return Lineage(source, token, key, origin and Origin(*origin))


def _pack_away(data: Any, meta: Any, dumps: Dumps) -> tuple[Any, Any, int]:  # noqa: ANN401
    if not (is_safe(data) and is_safe(meta)):
        return *dump((data, meta), dumps), _PICKLED
    packed = pack_table(data) if isinstance(data, pa.Table) else None
    return (data, meta, _AS_IT_IS) if packed is None else (packed, meta, _TABLE)


def _pack_here(data: Any, meta: Any, dumps: Dumps) -> tuple[Any, Any, int]:  # noqa: ANN401
    if is_unchanging(data) and is_unchanging(meta):
        return data, meta, _AS_IT_IS
    return dumps((data, meta), protocol=5), [], _PICKLED


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
