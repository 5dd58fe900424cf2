"""Laws of mixtures: shares are exact to a row, and no row repeats more often than allowed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import Rows, StageRun
from strandline.errors import MixtureError
from strandline.plan.errors import code_of
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.tables.shuffle.mix_shares import count_taken, divide, draw_shares
from strandline_packs.tables.shuffle.mixture_volume import describe_shares

PARTITIONS = 3
WEIGHTS = st.dictionaries(st.text("abc", min_size=1), st.floats(0.01, 100), min_size=1, max_size=5)
SUPPLIES = st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(sum)


@given(st.integers(0, 10**12), WEIGHTS)
def test_law_parts_add_up_and_differ_by_less_than_one(
    total: int, weights: dict[str, float]
) -> None:
    parts = divide(total, weights)
    assert sum(parts.values()) == total
    for name, part in parts.items():
        assert abs(part - total * weights[name] / sum(weights.values())) < 1 + total * 1e-9


@given(SUPPLIES, st.integers(0, 300))
def test_law_all_partitions_together_take_the_requested_amount(
    supply: list[int], wanted: int
) -> None:
    draws = draw_shares(supply, wanted)
    taken = [
        supply[draw.partition] if draw.take is None else draw.take
        for each in draws
        for draw in each
    ]
    assert sum(taken) == wanted
    drawn = Counter((draw.epoch, draw.partition) for each in draws for draw in each)
    assert set(drawn.values()) <= {1}
    assert all(
        draw.take is None or draw.take <= supply[draw.partition] for d in draws for draw in d
    )
    # Copies go to different partitions of the mixture, as long as enough exist.
    for each in draws:
        if len(each) <= len(supply):
            assert len({draw.partition for draw in each}) == len(each)


@given(
    st.lists(st.integers(0, 9)), st.integers(0, 60), st.integers(0, 60),
    st.floats(0, 1, exclude_max=True),
)  # fmt: skip
def test_law_rows_are_off_by_less_than_one_and_more_contain_fewer(
    numbers: list[int], one: int, two: int, chance: float
) -> None:
    weights = np.array(numbers, np.int64)
    taken = count_taken(weights, one, chance)
    if one <= sum(numbers):
        assert abs(sum(numbers[:taken]) - one) < max([1, *numbers])
    assert count_taken(weights, one + two, chance) >= taken


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(0, 60))
def test_law_chances_add_up_to_the_requested_amount(numbers: list[int], wanted: int) -> None:
    wanted = min(wanted, sum(numbers))
    chances = [(at + 0.5) / 2520 for at in range(2520)]  # multiples of all weights
    taken = [sum(numbers[: count_taken(np.array(numbers), wanted, each)]) for each in chances]
    assert sum(taken) == wanted * len(chances)


class Mixing:
    """Data sets that are partitioned and mixed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def part(self, name: str, rows: Rows, files: int = 2, **sink: Any) -> None:
        """Partition a data set whose rows are in several files."""
        options = {"by": "key", "seed": 1, "partitions": PARTITIONS, "tokens": "n"} | sink
        (self._folder / name).mkdir()
        for at in range(files):
            table = pa.Table.from_pylist(rows[at::files], pa.Table.from_pylist(rows).schema)
            written = StageRun("shuffle", **options).written(table)
            (self._folder / name / f"{at}.parquet").write_bytes(written)

    def mix(self, budget: dict[str, int], seed: int = 5, **parts: dict[str, Any]) -> Rows:
        """Return the rows of all partitions in order."""
        self.read = StageRun("read-mix")
        described = {
            name: {"paths": [f"{self._folder}/{name}/*.parquet"]} | part
            for name, part in parts.items()
        }
        sources = StageRun("mix", parts=described, budget=budget, seed=seed).sources()
        assert [source.key for source in sources] == [
            f"mixture/{at:05d}-of-{PARTITIONS:05d}" for at in range(PARTITIONS)
        ]
        return [row for source in sources for row in self.read.rows(source.data)]

    def list_shares(self) -> dict[str, dict[str, float]]:
        """Return the shares that the stage reports, by data set."""
        return describe_shares(self.read.stage._gathered)


@pytest.fixture
def mixing(tmp_path: Path) -> Mixing:
    return Mixing(tmp_path)


def make_rows(name: str, count: int, kinds: str = "x") -> Rows:
    return [
        {"key": f"{name}{at}", "n": 1 + at % 5, "kind": kinds[at % len(kinds)]}
        for at in range(count)
    ]


@given(
    st.integers(1, 60), st.integers(1, 60), st.integers(1, 4), st.integers(0, 100),
    st.sampled_from(["rows", "tokens"]),
)  # fmt: skip
def test_law_a_mixture_has_its_shares(
    ones: int, twos: int, weight: int, percent: int, unit: str
) -> None:
    with TemporaryDirectory() as folder:
        mixing = Mixing(Path(folder))
        data = {"one": make_rows("a", ones), "two": make_rows("b", twos)}
        weights = {"one": weight, "two": 2}
        for name, rows in data.items():
            mixing.part(name, rows)
        there = {
            name: sum(row["n"] if unit == "tokens" else 1 for row in rows)
            for name, rows in data.items()
        }
        whole = sum(weights.values())
        most = min(there[name] * whole // weight for name, weight in weights.items())
        budget = max(1, most * percent // 100)
        parts: dict[str, Any] = {name: {"weight": weights[name]} for name in data}
        if percent == 100:  # more than available
            with pytest.raises(MixtureError, match=r"not enough .* budget is [\d,]+$") as error:
                mixing.mix({unit: budget + 2 * whole}, **parts)
            budget = int(str(error.value).split()[-1].replace(",", "")) or 1
        found = mixing.mix({unit: budget}, **parts)
        keys = [row["key"] for row in found]
        assert len(set(keys)) == len(keys)
        for name, wanted in divide(budget, {k: float(v) for k, v in weights.items()}).items():
            rows = [row for row in found if row["part"] == name]
            taken = sum(row["n"] if unit == "tokens" else 1 for row in rows)
            # In each partition, the error is less than the longest row.
            assert abs(taken - wanted) <= (PARTITIONS * 4 if unit == "tokens" else 0)
            if wanted:
                assert (
                    mixing.list_shares()[name] | {"taken": taken, "wanted": wanted}
                    == (mixing.list_shares()[name])
                )


def test_law_a_larger_budget_contains_the_smaller(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 90))
    keys = [
        {row["key"] for row in mixing.mix({"tokens": budget}, one={"weight": 1})}
        for budget in (20, 50, 51, 180)
    ]
    assert keys[0] < keys[1] <= keys[2] < keys[3]


def test_rows_repeat_as_often_as_allowed(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 20))
    mixing.part("two", make_rows("b", 20))
    found = mixing.mix({"rows": 70}, one={"weight": 5, "epochs": 2.5}, two={"weight": 2})
    counted = Counter(row["key"] for row in found if row["part"] == "one")
    assert Counter(counted.values()) == {2: 10, 3: 10}
    assert {row["epoch"] for row in found if row["part"] == "one"} == {0, 1, 2}
    twos = [row["key"] for row in found if row["part"] == "two"]
    assert len(twos) == len(set(twos)) == 20


def test_each_epoch_has_an_order_of_its_own(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 40))
    found = mixing.mix({"rows": 80}, one={"weight": 1, "epochs": 2})
    first, second = ([row["key"] for row in found if row["epoch"] == epoch] for epoch in (0, 1))
    assert sorted(first) == sorted(second)
    # Every epoch has other partitions, so an unchanged order would appear rotated.
    assert " ".join(second) not in " ".join(first + first)


def test_strata_have_weights_of_their_own(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 60, "xyz"), stratum="kind")
    found = mixing.mix({"rows": 24}, one={"weight": 1, "strata": {"x": 3, "y": 1}})
    assert Counter(row["kind"] for row in found) == {"x": 18, "y": 6}
    shares = mixing.list_shares()
    assert {name: row["share"] for name, row in shares.items()} == {"one/x": 0.75, "one/y": 0.25}


def test_the_seed_determines_order_and_choice(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 60))
    first, again, other = (
        [row["key"] for row in mixing.mix({"rows": 30}, seed=seed, one={"weight": 1})]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert set(first) != set(other)
    assert first != sorted(first)


def test_an_insufficient_supply_is_reported_with_the_possible_budget(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 10), stratum="kind")
    mixing.part("two", make_rows("b", 100))
    with pytest.raises(MixtureError, match="enough rows: one has 10 of 15; with") as e:
        mixing.mix({"rows": 30}, one={"weight": 1}, two={"weight": 1})
    assert str(e.value).endswith("with these weights and epochs, the largest possible budget is 20")
    assert len(mixing.mix({"rows": 20}, one={"weight": 1}, two={"weight": 1})) == 20
    with pytest.raises(MixtureError, match=r"one/q has 0 of 2; .* possible budget is 0$"):
        mixing.mix({"rows": 2}, one={"weight": 1, "strata": {"q": 1}})


@pytest.mark.parametrize(
    ("sink", "part", "budget", "why"),
    [
        ({"exact": False}, {}, "rows", "the files of 'one' have no counts of rows; set `seed`"),
        ({}, {}, "bytes", "the files of 'one' do not count bytes; set `bytes`"),
        ({}, {"strata": {"x": 1}}, "rows", "the files of 'one' have no strata; set `stratum`"),
    ],
)
def test_uncounted_units_are_reported(
    mixing: Mixing, sink: dict[str, Any], part: dict[str, Any], budget: str, why: str
) -> None:
    mixing.part("one", make_rows("a", 10), **sink)
    with pytest.raises(MixtureError, match=why):
        mixing.mix({budget: 1}, one={"weight": 1} | part)


def test_data_sets_have_as_many_partitions(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 10))
    mixing.part("two", make_rows("b", 10), partitions=4)
    with pytest.raises(
        MixtureError, match="number of partitions, but they have 3 and 4; set the same"
    ):
        mixing.mix({"rows": 2}, one={"weight": 1}, two={"weight": 1})


def test_bytes_are_counted_of_text_and_tokens_of_lists(mixing: Mixing) -> None:
    rows = [{"key": f"{at}", "text": "é" * at, "ids": [1] * at} for at in range(1, 9)]
    mixing.part("one", rows, bytes="text", tokens="ids")
    assert sum(len(row["ids"]) for row in mixing.mix({"tokens": 36}, one={"weight": 1})) == 36
    assert sum(len(row["text"]) for row in mixing.mix({"bytes": 72}, one={"weight": 1})) == 36
    with pytest.raises(MixtureError, match=r"largest possible budget is 72$"):
        mixing.mix({"bytes": 73}, one={"weight": 1})


@pytest.mark.parametrize("column", [["a"], [-1]])
def test_a_column_without_weights_is_refused(mixing: Mixing, column: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"column 'n' holds .* so there are no tokens to count"):
        mixing.part("one", [{"key": "a", "n": column[0]}], files=1)


@pytest.mark.parametrize("budget", [{}, {"rows": 1, "tokens": 1}])
def test_a_budget_counts_one_thing(budget: dict[str, int]) -> None:
    parts = {"one": {"paths": ["a"], "weight": 1}}
    with pytest.raises(ValueError, match="set exactly one of `rows`, `bytes` and `tokens`"):
        StageRun("mix", parts=parts, budget=budget)


def test_incompatible_columns_of_one_name_are_reported(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 10))
    mixing.part("two", [{"key": "b", "n": 1, "kind": 3}])
    with pytest.raises(TypeError, match=r"the data sets do not fit into one table: .*kind"):
        mixing.mix({"rows": 2}, one={"weight": 1}, two={"weight": 1})


def test_an_insufficient_supply_is_reported_once_without_retries(mixing: Mixing) -> None:
    mixing.part("one", make_rows("a", 3))
    with pytest.raises(MixtureError, match="mixture can't be made: there are not") as error:
        mixing.mix({"rows": 9}, one={"weight": 1})
    assert error.value.is_lasting
    assert code_of(error.value) is ExitCode.BAD_SPEC
