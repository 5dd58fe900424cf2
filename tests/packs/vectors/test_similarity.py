"""Similar rows of a cluster: compared with all pairs, and independent of order and blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_packs.vectors import similarity
from strandline_packs.vectors.similarity import KeepRule, find_similar, order_rows

Array = npt.NDArray[Any]


def draw_vectors(seed: int, count: int, size: int = 8, groups: int = 5) -> Array:
    """Return vectors around a few directions, many of them similar."""
    chance = np.random.default_rng(seed)
    centers = chance.normal(size=(groups, size))
    noise = chance.normal(scale=0.3, size=(count, size))
    return np.asarray(centers[chance.integers(groups, size=count)] + noise).astype(np.float16)


def find_by_pairs(vectors: Array, order: Array, threshold: float) -> set[int]:
    """Return the rows that go, by the definition: any earlier row is similar."""
    units = vectors.astype(float) / np.linalg.norm(vectors.astype(float), axis=1)[:, None]
    return {
        int(row)
        for at, row in enumerate(order)
        if any(float(units[row] @ units[earlier]) >= threshold for earlier in order[:at])
    }


def name_rows(count: int) -> Array:
    return np.array([f"k{row:05}" for row in range(count)], object)


@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([0.5, 0.9, 0.99]))
def test_law_a_row_goes_exactly_if_an_earlier_row_is_similar(
    seed: int, count: int, threshold: float
) -> None:
    vectors = draw_vectors(seed, count)
    order = np.random.default_rng(seed).permutation(count)
    result = find_similar(vectors, order, threshold)
    assert set(result.rows.tolist()) == find_by_pairs(vectors, order, threshold)
    # Rows in `stays` are not in `rows`, and all cosines reach the threshold.
    assert not set(result.stays.tolist()) & set(result.rows.tolist())
    assert np.all(result.cosines >= threshold)


@given(st.integers(0, 10_000), st.integers(1, 50))
def test_law_the_result_does_not_depend_on_blocks(seed: int, block: int) -> None:
    vectors, order = draw_vectors(seed, 80), np.arange(80)
    whole = find_similar(vectors, order, 0.9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "_BLOCK", block)
        parts = find_similar(vectors, order, 0.9)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


@given(st.integers(0, 10_000), st.sampled_from(KeepRule))
def test_law_the_result_does_not_depend_on_the_order_of_arrival(seed: int, rule: KeepRule) -> None:
    count, chance = 50, np.random.default_rng(seed)
    vectors, keys = draw_vectors(seed, count), name_rows(count)
    closeness = np.round(chance.random(count), 1)  # with ties
    shuffled = chance.permutation(count)
    results = []
    for rows in (np.arange(count), shuffled):
        order = order_rows(keys[rows], closeness[rows], rule)
        result = find_similar(vectors[rows], order, 0.9)
        pairs = zip(keys[rows][result.rows], keys[rows][result.stays], strict=True)
        results.append(sorted(pairs))
    assert results[0] == results[1]


def test_the_rule_decides_which_row_stays() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02]])
    keys, closeness = name_rows(3), np.array([0.5, 0.9, 0.1])
    stays = {
        rule: set(find_similar(vectors, order_rows(keys, closeness, rule), 0.9).stays.tolist())
        for rule in KeepRule
    }
    assert stays == {KeepRule.HARDEST: {2}, KeepRule.EASIEST: {1}, KeepRule.FIRST: {0}}


def test_a_chain_of_similar_rows_ends_at_a_row_that_stays() -> None:
    angles = np.arange(0, 1.5, 0.1)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    result = find_similar(vectors, np.arange(len(angles)), np.cos(0.11))
    assert result.stays.tolist() == [0] * (len(angles) - 1)
    assert all(earlier < later for earlier, later in pairwise(result.rows))


def test_vectors_of_zeros_are_similar_to_none() -> None:
    vectors = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert find_similar(vectors, np.arange(3), 0.01).rows.tolist() == []


def test_a_cosine_at_the_threshold_counts_and_one_below_does_not() -> None:
    vectors = np.array([[1.0, 0.0], [3.0, 4.0]])
    assert find_similar(vectors, np.arange(2), 0.6).rows.tolist() == [1]
    assert find_similar(vectors, np.arange(2), np.nextafter(0.6, 1)).rows.tolist() == []


@pytest.mark.parametrize("block", [1, 2, 1024])
def test_of_equally_similar_rows_the_earliest_stays(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity, "_BLOCK", block)
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    result = find_similar(vectors, np.arange(3), 0.7)
    assert (result.rows.tolist(), result.stays.tolist()) == ([2], [0])
