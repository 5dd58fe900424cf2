"""A limited number of rows per group, chosen by their keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline import ExitCode, Pipeline
from strandline.data.tables.columns import MissingColumnError
from strandline.stages import (
    ParquetRowGroups,
    ParquetSink,
    ReadParquet,
    ReadShuffle,
    SampleGroups,
    ShufflePartitions,
    ShuffleSink,
)

rows = st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=3)), max_size=30)


def build(content: list[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {
            "group": pa.array([group for group, _ in content], pa.string()),
            "key": pa.array([key for _, key in content], pa.string()),
        }
    )


def sample(content: list[tuple[str, str]], **values: Any) -> list[tuple[str, str]]:
    stage = StageRun("sample-groups", group="group", **values)
    return [(row["group"], row["key"]) for row in stage.rows(build(content))]


@given(rows, st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_law_more_rows_contain_fewer_and_each_group_has_as_many(
    content: list[tuple[str, str]], one: int, other: int, seed: int
) -> None:
    few, many = sorted((one, other))
    smaller, larger = (sample(content, rows=most, seed=seed) for most in (few, many))
    there = Counter(group for group, _ in content)
    assert Counter(group for group, _ in larger) == {
        group: min(number, many) for group, number in there.items()
    }
    assert not Counter(smaller) - Counter(larger)
    left = iter(content)
    assert all(row in left for row in larger)  # in their order


@given(rows, st.integers(1, 4), st.randoms())
def test_law_the_order_of_rows_decides_nothing(
    content: list[tuple[str, str]], most: int, chance: Any
) -> None:
    shuffled = list(content)
    chance.shuffle(shuffled)
    assert Counter(sample(content, rows=most)) == Counter(sample(shuffled, rows=most))


def test_excluded_rows_are_counted() -> None:
    stage = StageRun("sample-groups", group="group", rows=1)
    assert len(stage.rows(build([("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")]))) == 2
    assert stage.counters == {"dropped: not sampled": 2}


def test_a_missing_column_is_named() -> None:
    with pytest.raises(MissingColumnError, match="language"):
        StageRun("sample-groups", group="language", rows=1).rows(build([("a", "1")]))


def test_after_a_shuffle_by_group_a_whole_corpus_is_sampled(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for file in range(4):
        content = [(f"g{number % 3}", f"{file}-{number}") for number in range(30)]
        pq.write_table(build(content), tmp_path / f"in/{file}.parquet")
    sink = ShuffleSink(by="group", seed=3, partitions=2, path=str(tmp_path / "parted"))
    passes: list[tuple[str, Any, list[Any], Any]] = [
        ("parted", ParquetRowGroups(paths=[f"{tmp_path}/in/*"]), [ReadParquet()], sink),
        (
            "sampled",
            ShufflePartitions(paths=[f"{tmp_path}/parted/**/*.parquet"]),
            [ReadShuffle(), SampleGroups(rows=7, group="group")],
            ParquetSink(),
        ),
    ]
    for name, source, stages, last in passes:
        pipeline = Pipeline(name, source=source, stages=stages, sink=last)
        outcome = pipeline.run(tmp_path / "volume", engine="processes", progress=False)
        assert outcome.code is ExitCode.COMPLETE
    found = defaultdict(set)
    for path in Path(outcome.output).rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["group"]].add(row["key"])
    every = [(f"g{n % 3}", f"{file}-{n}") for file in range(4) for n in range(30)]
    expected = defaultdict(set)
    for group, key in sample(every, rows=7):
        expected[group].add(key)
    assert found == expected
