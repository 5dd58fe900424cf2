"""Laws of every summary: merging parts in any order and grouping gives the whole's summary."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.data.statistics.histogram import Histogram
from summary_kinds import EVEN, KINDS, SummaryKind

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def draw_parts(data: st.DataObject, kind: SummaryKind, number: int) -> list[list[Any]]:
    return [data.draw(st.lists(kind.values, max_size=12)) for _ in range(number)]


@every_kind
@given(data=st.data())
def test_parts_joined_equal_the_whole(kind: SummaryKind, data: st.DataObject) -> None:
    parts = draw_parts(data, kind, data.draw(st.integers(1, 5)))
    whole = kind.of([value for part in parts for value in part])
    assert kind.view(whole) == kind.view(reduce(add, map(kind.of, parts)))


@every_kind
@given(data=st.data())
def test_joining_is_associative_and_commutative(kind: SummaryKind, data: st.DataObject) -> None:
    a, b, c = map(kind.of, draw_parts(data, kind, 3))
    expected = kind.view((a + b) + c)
    assert expected == kind.view(a + (b + c))
    assert expected == kind.view(c + (a + b))
    assert expected == kind.view(b + a + c)


@every_kind
@given(data=st.data())
def test_joining_an_empty_summary_changes_nothing(kind: SummaryKind, data: st.DataObject) -> None:
    (values,) = draw_parts(data, kind, 1)
    summary, nothing = kind.of(values), kind.of([])
    assert kind.view(summary) == kind.view(summary + nothing) == kind.view(nothing + summary)


@every_kind
@given(data=st.data())
def test_dumped_summaries_can_be_stored_and_parsed(kind: SummaryKind, data: st.DataObject) -> None:
    (values,) = draw_parts(data, kind, 1)
    summary = kind.of(values)
    stored = msgpack.unpackb(msgpack.packb(summary.dump()))
    parsed = type(summary).parse(stored)
    assert kind.view(summary) == kind.view(parsed)
    assert summary.dump() == parsed.dump()


@every_kind
@given(data=st.data())
def test_joining_does_not_change_the_parts(kind: SummaryKind, data: st.DataObject) -> None:
    a, b = map(kind.of, draw_parts(data, kind, 2))
    before = a.dump(), b.dump()
    _ = a + b
    assert before == (a.dump(), b.dump())


def test_histograms_of_other_bins_are_not_joined() -> None:
    with pytest.raises(ValueError, match="histograms with different bins can't be joined"):
        _ = Histogram.from_numbers([1]) + Histogram.from_numbers([1], EVEN)
