"""A table that is sent as bytes arrives unchanged. Other tables are sent in another way."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.wire import SMALL_BYTES, pack_table, unpack_table

COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.decimal128(20, 2), st.decimals(-1000, 1000, places=2).map(Decimal)),
    (pa.null(), st.none()),
]


@st.composite
def columns(draw: st.DrawFn, rows: int) -> tuple[pa.Field, pa.Array]:
    kind, values = draw(st.sampled_from(COLUMNS))
    taken = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
    metadata = draw(st.none() | st.just({"unit": "m"}))
    return pa.field(draw(st.text(max_size=4)), kind, metadata=metadata), pa.array(taken, kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw tables with at least one row, cut out of larger tables."""
    rows = draw(st.integers(1, 12))
    found = draw(st.lists(columns(rows), min_size=1, max_size=4))
    metadata = draw(st.none() | st.just({"made": "by hand"}))
    schema = pa.schema([field for field, _ in found], metadata)
    begin = draw(st.integers(0, rows - 1))
    whole = pa.Table.from_arrays([values for _, values in found], schema=schema)
    return whole.slice(begin, draw(st.integers(1, rows - begin)))


@given(tables())
def test_law_a_table_arrives_unchanged(table: pa.Table) -> None:
    packed = pack_table(table)
    assert packed is not None
    back = unpack_table(packed)
    back.validate(full=True)
    assert back.equals(table)
    assert back.schema.equals(table.schema, check_metadata=True)
    assert [column.num_chunks for column in back.columns] == [
        column.num_chunks for column in table.columns
    ]


def test_only_the_slice_of_a_large_table_is_sent() -> None:
    whole = pa.table({"text": ["x" * 1000] * 10_000})
    packed = pack_table(whole.slice(7, 3))
    assert packed is not None
    assert len(packed) < 10_000


class Own(pa.ExtensionType):  # type: ignore[misc]  # it comes without types
    """A user-defined type."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Own:
        return cls()


NUMBERS = pa.array([1, 2], pa.int64())


@pytest.mark.parametrize(
    "table",
    [
        pa.table({}),
        pa.table({"a": NUMBERS.slice(0, 0)}),
        pa.table({"a": pa.chunked_array([NUMBERS, NUMBERS])}),
        pa.table({"a": pa.array([[1], [2]])}),
        pa.table({"a": pa.array([{"b": 1}])}),
        pa.table({"a": pa.array(["x", "x"]).dictionary_encode()}),
        pa.table({"a": pa.ExtensionArray.from_storage(Own(), NUMBERS)}),
        pa.table({"a": ["x" * (SMALL_BYTES + 1)]}),
    ],
    ids=["no columns", "no rows", "chunks", "lists", "structs", "dictionary", "own type", "large"],
)
def test_tables_that_might_change_are_sent_by_ray(table: pa.Table) -> None:
    assert pack_table(table) is None
    assert pack_table(pa.table({"a": NUMBERS})) is not None
