"""Sources come back from a spool unchanged, whatever a source stage put into them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.stages.ends import Source
from strandline.run.attempt.sources.spooled_sources import SpooledSources


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    """A subclass of `str`."""

    __slots__ = ()


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 99), inner),
    max_leaves=20,
)


def turn(source: Source) -> tuple[Source, bool]:
    """Return the source after a round trip through the spool, and whether it stayed in memory."""
    kept = SpooledSources()
    packed = kept.pack(7, source)
    is_kept = len(kept) == 1
    assert is_kept == (packed is None)
    back = kept.unpack(7, packed)
    assert len(kept) == 0
    return back, is_kept


@given(data=PLAIN, meta=st.none() | st.dictionaries(st.text(), PLAIN))
def test_law_plain_values_survive_spooling(data: Any, meta: dict[str, Any] | None) -> None:
    source = Source("key \udcff", "1", data, meta)
    back, is_kept = turn(source)
    assert (source, False) == (back, is_kept)
    assert repr(source) == repr(back)  # 1 must not become True


@pytest.mark.parametrize(
    "data",
    [(1, 2), [(1,)], Point(1, 2), {"deep": {1, 2}}, object(), 2**64, Text("x"), {(1, 2): 3}, print],
)
def test_other_objects_stay_in_memory(data: Any) -> None:
    back, is_kept = turn(Source("key", "1", data))
    assert is_kept
    assert back.data is data


def test_a_value_that_contains_itself_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: list[Any] = []
    loop.append(loop)
    back, is_kept = turn(Source("key", "1", loop))
    assert is_kept
    assert back.data is loop


def test_tables_are_spooled_with_their_metadata() -> None:
    schema = pa.schema([pa.field("key", pa.string(), metadata={"of": "a"})], {"whole": "b"})
    table = pa.table({"key": pa.chunked_array([["a"], ["b", None]])}, schema=schema)
    back, is_kept = turn(Source("key", "1", table))
    assert not is_kept
    assert back.data.equals(table, check_metadata=True)
