"""Converts tasks and receipts to plain lists, the format for transport between processes.

Ray's serializer calls back into Python for every tuple and for every object of our classes. For
batches of small tasks, these calls cost more than moving the data. This module has no side effects.
The classes define the meaning of their fields.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any, overload

import msgpack
import pyarrow as pa

from strandline.engine.call.payloads import Dumps, dump, is_safe, is_unchanging, load, separate
from strandline.engine.call.slots import Slot
from strandline.plan.receipt import (
    Effort,
    EmittedTask,
    Event,
    Failure,
    Left,
    Output,
    Piece,
    Receipt,
    SharedPart,
    StageCounts,
)
from strandline.plan.task import Lineage, Origin, Task

SMALL_BYTES = 1 << 17
# Number of tasks that are read together. A call often takes few tasks of a huge block. Without
# pages, the worker would read the whole block.
PAGE_TASKS = 64


def pack_table(table: pa.Table) -> bytes | None:
    """Return a table as bytes, or None if the table is large or might not survive unchanged.

    A table may change because chunks would be merged, and because a user's extension types would
    become their storage types.
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
    """Return the table from the result of `pack_table`."""
    with pa.ipc.open_stream(packed) as stream:
        return stream.read_all()


def _is_plain(kind: pa.DataType) -> bool:
    is_own = isinstance(kind, pa.BaseExtensionType)
    return not (is_own or pa.types.is_nested(kind) or pa.types.is_dictionary(kind))


Plain = list[Any]


# How the data of a packed task is encoded.
_AS_IT_IS, _TABLE, _PICKLED = 0, 1, 2


def pack_tasks(
    tasks: Iterable[Task], dumps: Dumps = pickle.dumps, *, is_local: bool = False
) -> list[Plain]:
    """Return tasks as [data, meta, source, token, key, origin, encoding of the data].

    Args:
        dumps: pickles payloads that are not safe to send unchanged.
        is_local: whether the tasks stay in this process and only need protection from changes.

    Raises:
        BaseException: if a payload can't be pickled.
    """
    return _pack(
        tasks,
        partial(_pack_here, dumps=dumps)
        if is_local
        else partial(_pack_away, seen=set(), dumps=dumps),
    )


def _pack(tasks: Iterable[Task], pack: Callable[[Any, Any], tuple[Any, Any, int]]) -> list[Plain]:
    return [
        [data, meta, source, token, key, origin and list(origin), form]
        for task in tasks
        if task.lineage
        for source, token, key, origin in (task.lineage,)
        for data, meta, form in (pack(task.data, task.meta),)
    ]


def pack_sharing(tasks: Iterable[Task], dumps: Dumps) -> list[Plain]:
    """Pack tasks that stay in this process, like `pack_tasks`, but do not copy large parts.

    Arrays share their bytes and become read-only, as they would after a transport.

    Raises:
        BaseException: if a payload can't be pickled.
    """
    return _pack(tasks, partial(_pack_sharing, dumps=dumps))


def unpack_task(packed: Plain) -> Task:
    """Unpack one task from the output of `pack_tasks`.

    Raises:
        BaseException: if the payload can't be read.
    """
    data, meta, *_, form = packed
    if form == _TABLE:
        data = unpack_table(data)
    elif form == _PICKLED:
        data, meta = load(data, meta)
    return Task(data, meta, read_lineage(packed))


def read_lineage(packed: Plain) -> Lineage:
    """Return the lineage of a packed task without reading its payload."""
    _, _, source, token, key, origin, _ = packed
    return Lineage(source, token, key, origin and Origin(*origin))


def _pack_away(data: Any, meta: Any, seen: set[int], dumps: Dumps) -> tuple[Any, Any, int]:  # noqa: ANN401
    if not (is_safe(data) and is_safe(meta)):
        return *dump((data, meta), dumps), _PICKLED
    packed = pack_table(data) if isinstance(data, pa.Table) else None
    # Separate the data: all tasks of a result are pickled together, so an object that two tasks
    # share would arrive as a shared object.
    if packed is None:
        return separate(data, seen), separate(meta, seen), _AS_IT_IS
    return packed, separate(meta, seen), _TABLE


def _pack_here(data: Any, meta: Any, dumps: Dumps) -> tuple[Any, Any, int]:  # noqa: ANN401
    if is_unchanging(data) and is_unchanging(meta):
        return data, meta, _AS_IT_IS
    body, buffers = dump((data, meta), dumps)
    return body, [bytes(buffer.raw()) for buffer in buffers], _PICKLED  # read-only, as from Ray


def _pack_sharing(data: Any, meta: Any, dumps: Dumps) -> tuple[Any, Any, int]:  # noqa: ANN401
    if is_unchanging(data) and is_unchanging(meta):
        return data, meta, _AS_IT_IS
    body, buffers = dump((data, meta), dumps)
    return body, [buffer.raw().toreadonly() for buffer in buffers], _PICKLED


def pack_pages(packed: list[Plain]) -> list[Any]:
    """Group packed tasks into pages, so that a page can be read without the others.

    Many tasks become [tasks per page, page, page, ...], where a page has the pickled tasks and
    their large buffers. Few tasks are returned unchanged.
    """
    if len(packed) <= PAGE_TASKS:
        return packed
    starts = range(0, len(packed), PAGE_TASKS)
    return [PAGE_TASKS, *(_pack_page(packed[start : start + PAGE_TASKS]) for start in starts)]


def _pack_page(packed: list[Plain]) -> Plain:
    body, buffers = dump(packed, pickle.dumps)
    # Keep the page's bytes out of the block's pickle, so that loading the block does not load its
    # pages.
    return [pickle.PickleBuffer(body), buffers]


def pick_tasks(picks: Iterable[Sequence[int]], blocks: Sequence[list[Any]]) -> Iterator[Plain]:
    """Yield the packed tasks of a batch, loading only the pages that contain them.

    Args:
        picks, blocks: the result of `pack_batch`.
    """
    pages: dict[tuple[int, int], list[Plain]] = {}
    for number, position, *_ in picks:
        block = blocks[number]
        if not _is_paged(block):
            yield block[position]
            continue
        page, index = divmod(position, block[0])
        if (number, page) not in pages:
            pages[number, page] = load(*block[1 + page])
        yield pages[number, page][index]


def _is_paged(block: list[Any]) -> bool:
    return isinstance(block[0], int)


def pack_batch(batch: Iterable[Slot]) -> tuple[list[list[int]], list[Any]]:
    """Return the positions of a batch's tasks in blocks, and the blocks.

    A shared block is listed once. A position is the index of the block and the index in the block.
    If slots of the task were already passed on, their number follows.
    """
    own: list[Any] = []
    blocks: list[Any] = [own]
    numbers: dict[int, int] = {}
    picks = []
    for slot in batch:
        before = [slot.handed] if slot.handed else []
        if isinstance(slot.block, list):  # a root task, whose data is in the driver
            picks.append([0, len(own), *before])
            own.append(slot.block[slot.position])
            continue
        number = numbers.get(id(slot.block))
        if number is None:
            number = numbers[id(slot.block)] = len(blocks)
            blocks.append(slot.block)
        picks.append([number, slot.position, *before])
    return picks, blocks


def pack_receipt(receipt: Receipt) -> Plain:
    """Return a receipt as [packed events, failures, emitted, counts, efforts, links, gone]."""
    return [
        pack_events(receipt.events),
        [list(failure) for failure in receipt.failures],
        [
            [position, source, token, origin and list(origin), link]
            for position, source, token, origin, link in receipt.emitted
        ],
        list(astuple(receipt.counts)),
        [[source, *effort] for source, effort in receipt.efforts],
        [[link, *astuple(counts)] for link, counts in receipt.links],
        [[list(origin), source] for origin, source in receipt.gone],
    ]


def unpack_receipt(packed: Plain) -> Receipt:
    """Return the receipt from the result of `pack_receipt`. Further items of the list are ignored.

    Events are unpacked on first access.
    """
    events, failures, emitted, counts, efforts, links, gone, *_ = packed
    return Receipt(
        PackedEvents(events),
        tuple(Failure(*failure) for failure in failures),
        tuple(
            EmittedTask(position, source, token, origin and Origin(*origin), link)
            for position, source, token, origin, link in emitted
        ),
        StageCounts(*counts),
        tuple((source, _unpack_effort(effort)) for source, *effort in efforts),
        tuple((link, StageCounts(*counts)) for link, *counts in links),
        tuple((Origin(*origin), source) for origin, source in gone),
    )


class PackedEvents(Sequence[Event]):
    """Packed events. The driver forwards most events without unpacking them.

    Attributes:
        packed: see `pack_events`.
    """

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self._events: list[Event] | None = None

    def __bool__(self) -> bool:
        return self.packed != _NO_EVENTS

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._read()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def _read(self) -> list[Event]:
        if self._events is None:
            self._events = unpack_events(self.packed)
        return self._events


def pack_events(events: Sequence[Event]) -> bytes:
    """Return events as bytes, each as [source, settled, children, outputs, efforts]."""
    if isinstance(events, PackedEvents):
        return events.packed
    return msgpack.packb(list(events))  # type: ignore[no-any-return]


def unpack_events(packed: bytes) -> list[Event]:
    """Return the events from the result of `pack_events`."""
    # The unpacker returns tuples, so most events need no further conversion.
    return [
        _unpack_event(event) if event[3] or event[4] else _new_tuple(Event, event)
        for event in msgpack.unpackb(packed, use_list=False)
    ]


def _unpack_event(packed: Sequence[Any]) -> Event:
    source, settled, children, outputs, efforts = packed
    left = tuple(map(_unpack_left, outputs))
    return Event(source, settled, children, left, tuple(map(_unpack_effort, efforts)))


def _unpack_effort(packed: Sequence[Any]) -> Effort:
    stage, rows_in, rows_out, seconds, size, reasons = packed
    known = tuple((reason, number) for reason, number in reasons)
    return Effort(stage, rows_in, rows_out, seconds, size, known)


def _unpack_left(packed: Sequence[Any]) -> Left:
    # A packed piece begins with the name of its stage, a packed output with its token.
    if isinstance(packed[0], str):
        return Piece(*packed)
    output = Output(*packed)
    return output if output.part is None else output._replace(part=SharedPart(*output.part))


_NO_EVENTS = pack_events(())
# Calling the constructor of the class takes twice as long.
_new_tuple = tuple.__new__
