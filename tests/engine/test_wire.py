"""Data that is sent between processes arrives unchanged."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call import wire
from strandline.plan.receipt import (
    Effort,
    EmittedTask,
    Event,
    Failure,
    Output,
    Receipt,
    SharedPart,
    StageCounts,
)
from strandline.plan.task import Lineage, Origin, Task

token = st.binary(min_size=16, max_size=16)
origin = st.none() | st.builds(Origin, token, st.integers(0, 9), st.integers(10, 20))
number = st.integers(0, 2**40)
# File sizes are signed 64-bit integers.
size = st.integers(0, 2**63 - 1)
part = st.none() | st.builds(SharedPart, token, size, size, size)
output = st.builds(Output, token, st.just(".parquet"), size, token, st.integers(0, 10**9), part)
reasons = st.lists(st.tuples(st.text(), number), max_size=2).map(tuple)
effort = st.builds(Effort, st.text(), number, number, st.floats(0, 9), number, reasons)
event = st.builds(
    Event,
    token,
    st.lists(token, max_size=3).map(tuple),
    st.lists(token, max_size=3).map(tuple),
    st.lists(output, max_size=2).map(tuple),
    st.lists(effort, max_size=2).map(tuple),
)
failure = st.builds(Failure, token, st.text(), token, st.text(), st.text())
emitted = st.builds(EmittedTask, st.integers(0, 99), token, token, origin)
counts = st.builds(
    StageCounts,
    *[st.integers(0, 9)] * 6,
    st.floats(0, 9),
    st.dictionaries(st.text(), st.integers(1)),
)
receipt = st.builds(
    Receipt,
    *[st.lists(part, max_size=3).map(tuple) for part in (event, failure, emitted)],
    counts,
    st.lists(st.tuples(token, effort), max_size=3).map(tuple),
)


@given(receipt=receipt)
def test_a_receipt_arrives_unchanged(receipt: Receipt) -> None:
    packed = pickle.loads(pickle.dumps(wire.pack_receipt(receipt)))  # noqa: S301 - our own bytes

    assert wire.unpack_receipt(packed) == receipt


@given(receipt=receipt)
def test_forwarded_events_are_not_decoded(receipt: Receipt) -> None:
    packed = wire.pack_receipt(receipt)
    events = wire.unpack_receipt(packed).events
    assert wire.pack_events(events) is packed[0]
    assert bool(events) is bool(receipt.events)
    assert wire.unpack_events(packed[0]) == [*receipt.events] == [*events]
    assert all(type(event) is Event for event in events)


@given(lineage=st.builds(Lineage, token, token, st.text(), origin), data=st.text())
def test_a_task_arrives_unchanged(lineage: Lineage, data: str) -> None:
    (packed,) = wire.pack_tasks([Task(data, {"n": 1}, lineage)])

    task = wire.unpack_task(packed)

    assert (task.data, task.meta, task.lineage) == (data, {"n": 1}, lineage)


def test_small_tables_are_packed_and_bytes_are_unchanged() -> None:
    table, lineage = pa.table({"text": ["a", None]}), Lineage(b"s" * 16, b"t" * 16, "key")

    packed = wire.pack_tasks([Task(table, None, lineage), Task(b"bytes", None, lineage)])

    assert all(isinstance(one[0], bytes) for one in packed)
    first, second = map(wire.unpack_task, packed)
    assert first.table.equals(table)
    assert second.data == b"bytes"


def test_only_plain_values_are_sent() -> None:
    packed = wire.pack_receipt(
        Receipt(
            (Event(b"s", (b"t",), (), (Output(b"t", ".x", 1, b"d", 1),)),),
            (Failure(b"s", "k", b"t", "stage", "no"),),
            (EmittedTask(0, b"s", b"t", Origin(b"p", 0, 1)),),
            StageCounts(counters={"dropped": 1}),
            ((b"s", Effort("read", 1, 1, 0.5, 8)),),
        )
    )

    assert b"strandline" not in pickle.dumps(packed)


@pytest.mark.parametrize("shared", [[1], {"n": 1}, bytearray(b"1"), np.arange(3), [[1]]], ids=repr)
@pytest.mark.parametrize("where", ["data", "meta"])
def test_law_received_tasks_do_not_share_a_payload(shared: Any, where: str) -> None:
    lineage = Lineage(b"s" * 16, b"t" * 16, "key")
    content = {"data": {"data": shared}, "meta": {"meta": {"of": "many", "shared": shared}}}[where]
    packed = wire.pack_tasks([Task(**content, lineage=lineage) for _ in range(3)])

    # Ray pickles an answer as a whole, so repeated objects would arrive as the same object.
    first, *others = map(wire.unpack_task, pickle.loads(pickle.dumps(packed, protocol=5)))  # noqa: S301

    kept = [getattr(task, where) for task in (first, *others)]
    assert len({id(each) for each in kept}) == 3
    values = [each["shared"] if where == "meta" else each for each in kept]
    assert len({id(value) for value in values}) == 3
    assert all(pickle.dumps(value) == pickle.dumps(shared) for value in values)


def test_arrays_that_stay_in_a_process_are_shared_read_only() -> None:
    array, lineage = np.arange(10_000), Lineage(b"s" * 16, b"t" * 16, "key")
    tasks = [Task(array, {"of": 2}, lineage), Task({"deep": [array]}, None, lineage)]
    first, second = map(wire.unpack_task, wire.pack_sharing(tasks, pickle.dumps))

    assert (first.meta, first.lineage) == ({"of": 2}, lineage)
    for found in (first.data, second.data["deep"][0]):
        assert np.array_equal(found, array)
        assert np.shares_memory(found, array)
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1
    array[0] = 1  # the owner may still change its array


@given(data=st.recursive(st.integers() | st.text(), st.lists, max_leaves=5))
def test_law_data_that_stays_in_a_process_shares_no_mutable_objects(data: Any) -> None:
    lineage = Lineage(b"s" * 16, b"t" * 16, "key")
    packed = wire.pack_sharing([Task(data, data, lineage) for _ in range(2)], pickle.dumps)
    for found in map(wire.unpack_task, packed):
        assert (found.data, found.meta) == (data, data)
        assert not isinstance(data, list) or found.data is not data


def send(block: list[Any]) -> list[Any]:
    """Return a block as another process receives it. Large parts are sent separately, as in Ray."""
    parts: list[pickle.PickleBuffer] = []
    body = pickle.dumps(block, protocol=5, buffer_callback=parts.append)
    received: list[Any] = pickle.loads(body, buffers=[part.raw() for part in parts])  # noqa: S301
    return received


def make_tasks(count: int) -> list[Task]:
    return [
        Task(f"text {index}", {"n": index}, Lineage(b"s" * 16, b"%16d" % index, "key"))
        for index in range(count)
    ]


@given(data=st.data(), count=st.integers(1, 3 * wire.PAGE_TASKS + 1))
def test_law_any_tasks_of_a_block_are_read_unchanged(data: st.DataObject, count: int) -> None:
    tasks = make_tasks(count)
    block = send(wire.pack_pages(wire.pack_tasks(tasks)))
    places = data.draw(st.lists(st.integers(0, count - 1), max_size=9))

    picked = wire.pick_tasks([[1, place] for place in places], [[], block])

    found = [(task.data, task.meta, task.lineage) for task in map(wire.unpack_task, picked)]
    sent = [tasks[place] for place in places]
    assert found == [(task.data, task.meta, task.lineage) for task in sent]


def test_only_picked_tasks_of_a_block_are_decoded() -> None:
    size = wire.PAGE_TASKS
    block = wire.pack_pages(wire.pack_tasks(make_tasks(3 * size)))
    block[1] = block[3] = [b"nobody can read this", []]

    picked = wire.pick_tasks([[0, size], [0, 2 * size - 1]], [block])

    metas = [wire.unpack_task(packed).meta for packed in picked]
    assert metas == [{"n": size}, {"n": 2 * size - 1}]


def test_large_parts_of_many_tasks_are_not_copied_into_their_page() -> None:
    array = np.arange(100_000)
    tasks = [
        Task(array[number:], None, Lineage(b"s" * 16, b"%16d" % number, "key"))
        for number in range(wire.PAGE_TASKS + 1)
    ]
    block = wire.pack_pages(wire.pack_tasks(tasks))
    assert len(memoryview(block[1][0])) < array.nbytes

    (last,) = wire.pick_tasks([[0, wire.PAGE_TASKS]], [send(block)])
    assert np.array_equal(wire.unpack_task(last).data, array[wire.PAGE_TASKS :])
