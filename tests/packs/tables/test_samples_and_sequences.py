"""A share of the rows, and rows of tokens packed into sequences."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline_packs.tables.rows.packing import cut_sequences, fit_sequences

METHODS = {"cut": cut_sequences, "best-fit": fit_sequences}
lengths = st.lists(st.integers(0, 25), max_size=30)
sizes = st.integers(1, 12)
rates = st.floats(0, 1)
keys = st.lists(st.text(max_size=4), max_size=20)


def sample(rows: list[str], **values: Any) -> list[str]:
    table = pa.table({"key": pa.array(rows, pa.string())})
    return [row["key"] for row in StageRun("sample-rows", **values).rows(table)]


@given(keys, rates, rates, st.integers(0, 9))
def test_law_a_larger_share_contains_a_smaller_one(
    rows: list[str], one: float, other: float, seed: int
) -> None:
    few, many = sorted((one, other))
    larger = sample(rows, rate=many, seed=seed)
    chosen = set(sample(rows, rate=few, seed=seed))
    assert [key for key in larger if key in chosen] == sample(rows, rate=few, seed=seed)
    assert chosen <= set(larger)
    assert rows == sample(rows, rate=1)
    assert [] == sample(rows, rate=0)


@given(keys, rates, st.integers(0, 20))
def test_law_the_share_does_not_depend_on_the_partition_of_rows(
    rows: list[str], rate: float, at: int
) -> None:
    parts = sample(rows[:at], rate=rate) + sample(rows[at:], rate=rate)
    assert parts == sample(rows, rate=rate)


def test_the_share_is_met_and_another_seed_draws_other_rows() -> None:
    rows = [f"page {number}" for number in range(4000)]
    first, second = sample(rows, rate=0.25), sample(rows, rate=0.25, seed=1)
    assert 900 < len(first) < 1100
    assert 150 < len({*first} & {*second}) < 350
    stage = StageRun("sample-rows", rate=0.25)
    stage.rows(pa.table({"key": rows}))
    assert {"dropped: not sampled": 4000 - len(first)} == stage.counters


def build(documents: list[list[int] | None], kind: pa.DataType | None = None) -> pa.Table:
    column = pa.array(documents, kind or pa.list_(pa.int32()))
    return pa.table({"key": [f"d{at}" for at in range(len(documents))], "tokens": column})


def number_tokens(counts: list[int]) -> list[list[int]]:
    """Return documents with distinct tokens."""
    return [[100 * at + token for token in range(count)] for at, count in enumerate(counts)]


@pytest.mark.parametrize("method", METHODS)
@given(lengths, sizes, st.integers(1, 6), st.booleans())
def test_law_no_token_gets_lost(
    method: str, counts: list[int], size: int, least: int, is_padded: bool
) -> None:
    documents = number_tokens(counts)
    values = {"pad": 9999} if is_padded else {}
    stage = StageRun("pack-sequences", length=size, method=method, minTokens=least, **values)
    rows = stage.rows(build([*documents, None]))
    told = stage.counters
    assert sum(counts) == told["tokens in"] == told["tokens out"] + told.get("tokens dropped", 0)
    out: dict[str, list[int]] = {}
    for row in rows:
        body = row["tokens"][: len(row["tokens"]) - row["padding"]]
        assert set(row["tokens"][len(body) :]) <= {9999}
        assert len(row["tokens"]) == (size if is_padded else len(body))
        assert least <= len(body) <= size
        ends = [sum(row["document_lengths"][:at]) for at in range(len(row["document_lengths"]) + 1)]
        assert len(body) == ends[-1]
        for key, (begin, end) in zip(row["document_keys"], pairwise(ends), strict=True):
            out.setdefault(key, []).extend(body[begin:end])
    assert told["tokens out"] == sum(map(len, out.values()))
    assert len(rows) == len({row["key"] for row in rows})
    if "tokens dropped" not in told:
        whole = {f"d{at}": tokens for at, tokens in enumerate(documents) if tokens}
        assert whole == {key: sorted(tokens) for key, tokens in out.items()}
        assert method != "cut" or whole == out


@given(lengths, sizes)
def test_law_cut_sequences_are_full(counts: list[int], size: int) -> None:
    sequences = cut_sequences(counts, size)
    sums = [sum(end - begin for _, begin, end in each) for each in sequences]
    assert all(number == size for number in sums[:-1])
    pieces = list(chain.from_iterable(sequences))
    assert pieces == sorted(pieces)


@given(lengths, sizes)
def test_law_fitting_documents_are_not_cut_and_sequences_cannot_be_merged(
    counts: list[int], size: int
) -> None:
    sequences = fit_sequences(counts, size)
    for _document, begin, end in chain.from_iterable(sequences):
        assert begin % size == 0
        assert end - begin == size or end == counts[_document]
    sums = sorted(sum(end - begin for _, begin, end in each) for each in sequences)
    # Any document of the later sequence would have fit into the other.
    assert len(sums) < 2 or sums[0] + sums[1] > size
    assert sequences == sorted(sequences)


def test_sequences_have_the_tokens_of_several_documents() -> None:
    stage = StageRun("pack-sequences", length=4)
    rows = stage.rows(build([[1, 2, 3], [], [4, 5, 6]]))
    assert [
        {"key": "d0@0", "tokens": [1, 2, 3, 4], "document_lengths": [3, 1],
         "document_keys": ["d0", "d2"], "padding": 0},
        {"key": "d2@1", "tokens": [5, 6], "document_lengths": [2],
         "document_keys": ["d2"], "padding": 0},
    ] == rows  # fmt: skip
    assert {"tokens in": 6, "tokens out": 6, "documents in several sequences": 1} == stage.counters


@pytest.mark.parametrize("kind", [pa.list_(pa.uint16()), pa.large_list(pa.int64())])
def test_tokens_keep_their_type(kind: pa.DataType) -> None:
    table = StageRun("pack-sequences", length=2, pad=0).table(build([[1, 2, 65535]], kind))
    assert table is not None
    assert pa.list_(kind.value_type) == table.schema.field("tokens").type
    assert [[1, 2], [65535, 0]] == table["tokens"].to_pylist()


def test_a_slice_of_a_table_is_packed_correctly() -> None:
    table = build([[1], [2, 3], [4], [5]]).slice(1, 2)
    rows = StageRun("pack-sequences", length=9).rows(table)
    assert [[2, 3, 4]] == [row["tokens"] for row in rows]


def test_too_few_tokens_for_a_sequence_are_reported() -> None:
    stage = StageRun("pack-sequences", length=4, minTokens=3)
    assert [] == stage.rows(build([[1, 2]]))
    assert {"tokens in": 2, "tokens out": 0, "tokens dropped": 2} == stage.counters


def test_only_lists_of_whole_numbers_are_packed() -> None:
    with pytest.raises(TypeError, match=r"holds list<.*double>, not lists of whole numbers"):
        StageRun("pack-sequences", length=4).rows(pa.table({"tokens": [[0.5]]}))
    with pytest.raises(ValueError, match="less than or equal to 1"):
        StageRun("sample-rows", rate=2)
