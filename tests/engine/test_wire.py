"""What crosses between processes is what was sent."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call import wire
from strandline.plan.receipt import Counts, Effort, Emitted, Event, Failure, Output, Receipt
from strandline.plan.task import Lineage, Origin, Task

token = st.binary(min_size=16, max_size=16)
origin = st.none() | st.builds(Origin, token, st.integers(0, 9), st.integers(10, 20))
output = st.builds(Output, token, st.just(".parquet"), st.integers(0), token, st.integers(0, 10**9))
number = st.integers(0, 2**40)
effort = st.builds(Effort, st.text(), number, number, st.floats(0, 9), number)
event = st.builds(
    Event,
    token,
    st.lists(token, max_size=3).map(tuple),
    st.lists(token, max_size=3).map(tuple),
    st.lists(output, max_size=2).map(tuple),
    st.lists(effort, max_size=2).map(tuple),
)
failure = st.builds(Failure, token, st.text(), token, st.text(), st.text())
emitted = st.builds(Emitted, st.integers(0, 99), token, token, origin)
counts = st.builds(
    Counts, *[st.integers(0, 9)] * 6, st.floats(0, 9), st.dictionaries(st.text(), st.integers(1))
)
receipt = st.builds(
    Receipt,
    *[st.lists(part, max_size=3).map(tuple) for part in (event, failure, emitted)],
    counts,
    st.lists(st.tuples(token, effort), max_size=3).map(tuple),
)


@given(receipt=receipt)
def test_a_receipt_arrives_as_it_was_sent(receipt: Receipt) -> None:
    packed = pickle.loads(pickle.dumps(wire.pack_receipt(receipt)))  # noqa: S301 - our own bytes

    assert wire.unpack_receipt(packed) == receipt


@given(lineage=st.builds(Lineage, token, token, st.text(), origin), data=st.text())
def test_a_task_arrives_as_it_was_sent(lineage: Lineage, data: str) -> None:
    (packed,) = wire.pack_tasks([Task(data, {"n": 1}, lineage)])

    task = wire.unpack_task(packed)

    assert (task.data, task.meta, task.lineage) == (data, {"n": 1}, lineage)


def test_small_tables_are_packed_and_bytes_are_left_alone() -> None:
    table, lineage = pa.table({"text": ["a", None]}), Lineage(b"s" * 16, b"t" * 16, "key")

    packed = wire.pack_tasks([Task(table, None, lineage), Task(b"bytes", None, lineage)])

    assert all(isinstance(one[0], bytes) for one in packed)
    first, second = map(wire.unpack_task, packed)
    assert first.table.equals(table)
    assert second.data == b"bytes"


def test_nothing_but_plain_values_is_sent() -> None:
    packed = wire.pack_receipt(
        Receipt(
            (Event(b"s", (b"t",), (), (Output(b"t", ".x", 1, b"d", 1),)),),
            (Failure(b"s", "k", b"t", "stage", "no"),),
            (Emitted(0, b"s", b"t", Origin(b"p", 0, 1)),),
            Counts(counters={"dropped": 1}),
            ((b"s", Effort("read", 1, 1, 0.5, 8)),),
        )
    )

    assert b"strandline" not in pickle.dumps(packed)
