"""Sketches keep their promised accuracy, even after many merges."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right

import numpy as np
import pytest

from strandline.data.statistics.fields import FieldSummary
from strandline.data.statistics.sketches import RANKS, Distinct, Quantiles

MOST_OFF = 0.02


def sample(shape: str, size: int) -> list[float]:
    generator = np.random.default_rng(8)
    numbers = {
        "normal": generator.normal(0, 1, size),
        "long tail": generator.pareto(1.0, size),
        "few values": generator.integers(0, 5, size).astype(float),
        "sorted": np.arange(size, dtype=float),
    }[shape]
    return [float(number) for number in numbers]


def cut(values: list[float], parts: int) -> list[list[float]]:
    size = -(-len(values) // parts)
    return [values[at : at + size] for at in range(0, len(values), size)]


@pytest.mark.parametrize("shape", ["normal", "long tail", "few values", "sorted"])
@pytest.mark.parametrize("parts", [1, 40])
def test_quantiles_are_within_their_bound(shape: str, parts: int) -> None:
    numbers = sample(shape, 20_000)
    sketch = sum(map(Quantiles.from_numbers, cut(numbers, parts)), Quantiles())
    assert sketch.count == len(numbers)
    bound = MOST_OFF * len(numbers)
    ordered = sorted(numbers)
    for name, found in sketch.describe().items():
        assert found is not None
        place = RANKS[name] * len(numbers)
        assert bisect_left(ordered, found) - bound <= place <= bisect_right(ordered, found) + bound
    assert len(sketch.dump()) < 5000


def test_the_same_parts_in_the_same_order_give_the_same_bytes() -> None:
    parts = cut(sample("normal", 20_000), 40)
    dumped = [Quantiles.from_numbers(part).dump() for part in parts]
    assert dumped == [Quantiles.from_numbers(part).dump() for part in parts]
    once, again = (sum(map(Quantiles.parse, dumped), Quantiles()).dump() for _ in range(2))
    assert once == again


@pytest.mark.parametrize("truth", [1, 100, 5_000, 60_000])
def test_distinct_values_are_counted_within_five_percent(truth: int) -> None:
    values = [f"value {number}" for number in range(truth)]
    parts = [Distinct.from_values(values[at::7] + values[at::3]) for at in range(7)]
    joined = sum(parts, Distinct.from_values([]))
    assert joined.estimate() == pytest.approx(truth, rel=0.05)
    assert joined.dump() == Distinct.from_values(reversed(values)).dump()
    assert len(joined.dump()) < 2048


def test_equal_numbers_are_one_value_whatever_their_type() -> None:
    assert Distinct.from_values([1, 2]).dump() == Distinct.from_values([2.0, 1.0, 1, 2]).dump()
    assert round(Distinct.from_values([1, "1", 1.5, 1e300]).estimate()) == 4


def test_the_empty_text_is_a_value() -> None:
    assert round(Distinct.from_values([""]).estimate()) == 1
    assert round(Distinct.from_values(["", "a", ""]).estimate()) == 2
    assert (
        Distinct.from_values(["a", ""]).dump()
        == (Distinct.from_values([""]) + Distinct.from_values(["a"])).dump()
    )


@pytest.mark.parametrize("number", [1.7e308, sys.float_info.max])
def test_quantiles_of_the_greatest_numbers_are_numbers(number: float) -> None:
    parts = [Quantiles.from_numbers([-number, float(at), number]) for at in range(2000)]
    joined = sum((Quantiles.parse(part.dump()) for part in parts), Quantiles())
    for sketch in (joined, Quantiles.from_numbers([-number, 1.0, number] * 2000)):
        told = sketch.describe()
        assert pytest.approx((-1e290, 1e290)) == (told["p05"], told["p95"])
        assert 0 <= (told["p50"] or 0) <= 2000


def test_an_empty_sketch_has_no_values() -> None:
    assert dict.fromkeys(RANKS) == Quantiles().describe()
    assert Distinct.from_values([]).estimate() == 0


def test_non_finite_numbers_are_counted_separately() -> None:
    told = FieldSummary.from_values([1.0, None, float("nan"), float("inf"), 3.0]).describe()
    assert (5, 1, 2) == (told["rows"], told["nulls"], told["not_finite"])
    assert (1.0, 3.0, 2.0, 2) == (told["min"], told["max"], told["mean"], told["distinct"])


def test_without_the_library_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ImportError, match=r"not installed .*; install strandline\[statistics\]$"):
        FieldSummary.from_values([])
