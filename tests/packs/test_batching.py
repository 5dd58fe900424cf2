"""Rows are split into full batches in order, and batches are returned as soon as full."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from strandline.data.tables.batching import cut_batches


@given(st.lists(st.binary(max_size=5)), st.integers(1, 4), st.integers(1, 12))
def test_law_batches_hold_all_rows_and_exceed_the_bound_only_by_the_last(
    rows: list[bytes], most: int, most_bytes: int
) -> None:
    batches = list(cut_batches(rows, len, most, most_bytes))
    assert rows == [row for batch in batches for row in batch]
    for batch in batches:
        sizes = list(map(len, batch))
        assert len(batch) <= most
        assert sum(sizes[:-1]) < most_bytes
    for batch in batches[:-1]:
        assert len(batch) == most or sum(map(len, batch)) >= most_bytes


def test_a_batch_is_returned_before_the_next_row_is_read() -> None:
    read: list[int] = []

    def count() -> Iterator[int]:
        for number in range(4):
            read.append(number)
            yield number

    batches = cut_batches(count(), lambda _: 1, 2, 100)
    assert [0, 1] == next(batches) == read
