"""Rows of two data sets: counts equal those of a comparison row by row, in bounded memory."""

from __future__ import annotations

import itertools
import json
import tempfile
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.registry import find_stage
from strandline.plan.task import Task
from strandline.run.compare.output_rows import UnreadableRowsError, can_read_rows, read_rows
from strandline.run.compare.row_changes import RowComparison, compare_rows, normalise

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("text", pa.string()),
        ("score", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
KEYS = st.one_of(st.none(), st.sampled_from("abcde"))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "text": st.sampled_from([None, "", "one", "two\n\ud7ff", "1"]),
            "score": st.sampled_from([None, 0.0, 1.0, 1.5]),
            "tags": st.sampled_from([None, [], ["x"], ["x", "y"]]),
        }
    ),
    max_size=8,
)
SINKS = st.sampled_from(["parquet", "jsonl"])


def write_files(folder: Path, use: str, parts: Iterable[Sequence[Row]]) -> list[str]:
    """Write each part to a file, as a run's sink does."""
    sink = find_stage(use)()
    assert isinstance(sink, SinkStage)
    folder.mkdir(exist_ok=True)
    paths = []
    for number, rows in enumerate(parts):
        paths.append(str(folder / f"{number}{sink.suffix}"))
        with open(paths[-1], "wb") as file:
            sink.write(Task(pa.Table.from_pylist(list(rows), SCHEMA)), file)
    return paths


def halve(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]


def compare_one_by_one(a: Sequence[Row], b: Sequence[Row]) -> Counter[str]:
    """Compare rows one by one, without digests and without a database."""
    sides: dict[str | None, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for at, rows in enumerate((a, b)):
        for row in rows:
            sides[row["key"]][at].append(row)
    counts: Counter[str] = Counter()
    for key, (before, after) in sides.items():
        rest = list(after)
        missing = []
        for row in before:
            if row in rest:
                rest.remove(row)
                counts["equal"] += 1
            else:
                missing.append(row)
        if key is not None and len(before) == len(after) == 1 and missing:
            counts["changed"] += 1
        else:
            counts["removed"] += len(missing)
            counts["added"] += len(rest)
    return counts


def count_unmatched(rows: Sequence[Row]) -> tuple[int, int]:
    keys = Counter(row["key"] for row in rows)
    nulls = keys.pop(None, 0)
    return nulls, sum(number > 1 for number in keys.values())


@given(a=ROWS, b=ROWS, first=SINKS, second=SINKS)
def test_law_counts_equal_a_comparison_row_by_row(
    a: list[Row], b: list[Row], first: str, second: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = write_files(Path(folder, "a"), first, halve(a))
        after = write_files(Path(folder, "b"), second, halve(b))
        found = compare_rows(before, after, "key", 2)
    expected = compare_one_by_one(a, b)
    assert found.counts == {kind: expected[kind] for kind in found.counts}
    assert found.read == [len(a), len(b)]
    for side, rows in enumerate((a, b)):
        numbers = (found.null_keys, found.repeated_keys)
        assert count_unmatched(rows) == tuple(each[side] for each in numbers)
    shown = {kind: min(2, found.counts[kind]) for kind in found.samples}
    # Equal rows without a partner share one sample.
    assert all(0 < len(found.samples[kind]) <= most for kind, most in shown.items() if most)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"a": 1, "b": None}, {"a": 1.0}, True),
        ({"a": {"x": None, "y": [1.0]}}, {"a": {"y": [1]}}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": []}, {"a": {}}, False),
        ({"a": [None]}, {"a": []}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": -0.0}, {"a": 0}, True),
        ({"a": float("nan")}, {"a": float("nan")}, True),
    ],
)
def test_equal_values_have_one_form(first: Row, second: Row, expected: bool) -> None:
    assert expected is (repr(normalise(first)) == repr(normalise(second)))


@pytest.fixture
def compared(tmp_path: Path) -> RowComparison:
    words = [f"word{number}" for number in range(40)]
    rows: list[Row] = [
        {"key": "k1", "text": " ".join(words), "score": 1.0},
        {"key": "k2", "text": "gone"},
    ]
    words[30] = "other"
    changed: list[Row] = [
        {"key": "k1", "text": " ".join(words), "score": 2.5},
        {"key": "k3", "tags": ["x"]},
    ]
    before = write_files(tmp_path / "a", "jsonl", [rows])
    return compare_rows(before, write_files(tmp_path / "b", "jsonl", [changed]), "key", 3)


def test_samples_show_the_first_difference(compared: RowComparison) -> None:
    (row,) = compared.samples["changed"]
    assert ("k1", ["text", "score"]) == (row.key, [each.column for each in row.columns])
    text, score = row.columns
    assert text.a is not None
    assert text.b is not None
    assert text.a.startswith("…rd28 word29 word30 word31")
    assert text.b.startswith("…rd28 word29 other word31")
    assert max(len(text.a), len(text.b)) <= 62
    assert ("1.0", "2.5") == (score.a, score.b)


def test_samples_of_one_side_have_its_columns(compared: RowComparison) -> None:
    (removed,), (added,) = compared.samples["removed"], compared.samples["added"]
    assert ("k2", [("text", "gone", None)]) == (removed.key, [tuple(c) for c in removed.columns])
    assert ("k3", [("tags", None, '["x"]')]) == (added.key, [tuple(c) for c in added.columns])
    assert compared.columns == ({"key", "text", "score"}, {"key", "text", "score", "tags"})


@pytest.mark.parametrize("use", ["parquet", "jsonl", "csv", "arrow"])
def test_each_format_returns_its_rows(use: str, tmp_path: Path) -> None:
    rows = [{"key": f"k{number}", "text": str(number)} for number in range(5)]
    (path,) = write_files(tmp_path / "a", use, [rows])
    read = list(read_rows(path))
    assert [(row["key"], row["text"]) for row in read] == [(f"k{n}", str(n)) for n in range(5)]


@pytest.mark.parametrize("use", ["csv", "arrow"])
def test_keys_made_by_a_reader_do_not_count(use: str, tmp_path: Path) -> None:
    sink = find_stage(use)()
    assert isinstance(sink, SinkStage)
    path = tmp_path / f"a{sink.suffix}"
    with path.open("wb") as file:
        sink.write(Task(pa.table({"text": ["a", "b"], "n": ["1", "2"]})), file)
    assert list(read_rows(str(path))) == [{"text": "a", "n": "1"}, {"text": "b", "n": "2"}]


def test_samples_of_a_shard_are_rows(tmp_path: Path) -> None:
    sink = find_stage("webdataset")()
    assert isinstance(sink, SinkStage)
    table = pa.table({"clip": ["c1", "c2"], "content": [b"one", b"two"], "score": [1, 2]})
    path = tmp_path / "a.tar"
    with path.open("wb") as file:
        sink.write(Task(table), file)
    rows = list(read_rows(str(path)))
    assert [(row["clip"], row["score"], row["bin"]) for row in rows] == [
        ("c1", 1, b"one"),
        ("c2", 2, b"two"),
    ]
    assert all(row["key"] == row["sample"] for row in rows)


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    (path,) = write_files(tmp_path / "a", "jsonl", [[{"key": "k"}]])
    packed = tmp_path / "a.jsonl.zst"
    packed.write_bytes(pa.compress(Path(path).read_bytes(), "zstd", asbytes=True))
    assert [row["key"] for row in read_rows(str(packed))] == ["k"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("x/a.jsonl.gz", True), ("x.tar", True), ("a.mds", False), ("a.zarr.zip", False)],
)
def test_formats_without_rows_are_recognized(path: str, expected: bool) -> None:
    assert expected is can_read_rows(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.csv", "a.tar"])
@pytest.mark.parametrize("content", [b"{\0\xff", None])
def test_a_damaged_file_is_named(name: str, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableRowsError, match=name) as error:
        list(read_rows(str(path)))
    assert "\0" not in str(error.value)
    assert "\n" not in str(error.value)


def write_many(path: Path, change: int, rows: int = 20_000) -> Iterator[str]:
    text = "x" * 300
    with path.open("w") as file:
        for number in range(rows):
            score = number + (change if number % 2 else 0)
            file.write(json.dumps({"key": f"k{number}", "text": text, "score": score}) + "\n")
    yield str(path)


def test_memory_does_not_grow_with_the_differences(tmp_path: Path) -> None:
    before = list(write_many(tmp_path / "a.jsonl", 0))
    after = list(write_many(tmp_path / "b.jsonl", 1))
    tracemalloc.start()
    try:
        found = compare_rows(before, after, "key", 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.counts == {"changed": 10_000, "added": 0, "removed": 0, "equal": 10_000}
    assert [len(rows) for rows in found.samples.values()] == [3, 0, 0]
    # The digests alone would take 2.5 MB in Python, and the texts 12 MB.
    assert peak < 1_000_000


def test_files_are_listed_lazily(tmp_path: Path) -> None:
    (path,) = write_files(tmp_path / "a", "jsonl", [[{"key": "k"}]])
    found = compare_rows(itertools.repeat(path, 2), iter([path]), "key", 1)
    assert found.repeated_keys == [1, 0]
    assert found.counts == {"changed": 0, "added": 0, "removed": 1, "equal": 1}
