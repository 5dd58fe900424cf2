"""Sources that are parts of a file: if a file loses parts, none of their outputs remain."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sources import parquet_source
from web_archive import Page, format_archive

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
SINKS = [
    {"use": "jsonl"},
    {"use": "parquet"},
    {"use": "jsonl", "with": {"targetBytes": 1 << 20}},
    {"use": "parquet", "with": {"targetBytes": 1 << 20}},
]
NAME = "copies"
AFTER: list[list[list[int]]] = [[[7]], [[7], [8]], [[]], [], [[1, 2], [3]], [[4], [5], [6], [7]]]


def list_changes() -> list[ParameterSet]:
    """Return all changes with all sinks. Only one sink per change runs in the first tier."""
    return [
        pytest.param(sink, after, marks=() if place == number % len(SINKS) else pytest.mark.full)
        for number, after in enumerate(AFTER)
        for place, sink in enumerate(SINKS)
    ]


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def write_groups(path: Path, *groups: list[int]) -> None:
    """Write a file with a row group per list of numbers, and change its modification time."""
    path.parent.mkdir(exist_ok=True)
    before = path.stat().st_mtime_ns if path.exists() else 0
    schema = pa.schema([("n", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for group in groups:
            writer.write_table(pa.table({"n": group}, schema))
    if path.stat().st_mtime_ns == before:  # clocks may be coarse
        os.utime(path, ns=(before + 1, before + 1))


def copy_groups(passes: Passes, sink: Any = None, **source: Any) -> AttemptResult:
    return passes.run(
        NAME,
        source={
            "use": "parquet-row-groups",
            "with": {"paths": [f"{passes.folder}/in/*.parquet"]} | source,
        },
        stages=[{"use": "read-parquet"}, {"use": "measure-fields", "with": {"columns": ["n"]}}],
        sink=sink or SINKS[0],
    )


def count_measured(passes: Passes) -> int:
    path = passes.find_output(NAME).parent / "latest/artifacts/measure-fields.field-statistics.json"
    fields = json.loads(path.read_text())["rows"] if path.exists() else []
    return sum(int(field["rows"]) for field in fields)


def check(passes: Passes, *numbers: int) -> None:
    """Check that exactly these rows exist, and that ledger and statistics agree."""
    assert passes.read_rows(NAME, "n") == Counter(numbers)
    assert passes.find_problems(NAME) == []
    assert count_measured(passes) == len(numbers)


@pytest.mark.parametrize(("sink", "after"), list_changes())
@pytest.mark.parametrize("on_removed", ["Keep", "Delete"])
def test_row_groups_missing_from_a_changed_file_are_removed(
    passes: Passes, sink: Any, on_removed: str, after: list[list[int]]
) -> None:
    write_groups(passes.folder / "in/a.parquet", [1, 2], [3], [4])
    write_groups(passes.folder / "in/b.parquet", [10], [11])
    copy_groups(passes, sink, onRemoved=on_removed)
    check(passes, 1, 2, 3, 4, 10, 11)
    write_groups(passes.folder / "in/a.parquet", *after)
    second = copy_groups(passes, sink, onRemoved=on_removed)
    assert second.code is ExitCode.COMPLETE
    check(passes, *(number for group in after for number in group), 10, 11)
    assert second.standing.skipped == 2
    assert second.standing.removed == max(0, 3 - max(1, len(after)))
    third = copy_groups(passes, sink, onRemoved=on_removed)
    assert (third.standing.finished, third.standing.removed) == (0, 0)


@settings(max_examples=scale_examples(32))  # an example takes 200 ms
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "a.parquet#rg=1"]),
            st.lists(st.lists(st.integers(0, 99), max_size=2), max_size=4),
            min_size=1,
        ),
        min_size=2,
        max_size=3,
    )
)
def test_law_outputs_equal_the_files_of_the_last_listing(
    tmp_path_factory: pytest.TempPathFactory, states: list[dict[str, list[list[int]]]]
) -> None:
    """With `Keep`, the last rows of a removed file remain."""
    passes = Passes(tmp_path_factory.mktemp("passes"))
    expected: dict[str, list[list[int]]] = {}
    for state in states:
        for path in passes.folder.glob("in/*"):
            path.unlink()
        for name, groups in state.items():
            write_groups(passes.folder / f"in/{name}.parquet", *groups)
        copy_groups(passes)
        expected |= state
        rows = Counter(number for groups in expected.values() for each in groups for number in each)
        assert passes.read_rows(NAME, "n") == rows
        assert passes.find_problems(NAME) == []


def test_a_removed_file_keeps_all_its_parts(passes: Passes) -> None:
    write_groups(passes.folder / "in/a.parquet", [1], [2])
    write_groups(passes.folder / "in/b.parquet", [3])
    copy_groups(passes)
    (passes.folder / "in/a.parquet").unlink()
    copy_groups(passes)
    check(passes, 1, 2, 3)


def test_a_sample_of_files_loses_no_other_file(passes: Passes) -> None:
    for number, name in enumerate("abcd"):
        write_groups(passes.folder / f"in/{name}.parquet", [number], [number])
    copy_groups(passes)
    copy_groups(passes, onRemoved="Delete", limit=1)
    check(passes, 0, 0, 1, 1, 2, 2, 3, 3)
    for number, name in enumerate("abcd"):
        write_groups(passes.folder / f"in/{name}.parquet", [number])
    copy_groups(passes, onRemoved="Delete", limit=1)
    assert passes.read_rows(NAME, "n").total() == 7  # the rows of the file within the limit


@pytest.mark.parametrize("has_changed", [True, False])
@pytest.mark.parametrize("on_removed", ["Keep", "Delete"])
def test_a_footer_that_cant_be_read_once_costs_no_row_group(
    passes: Passes, monkeypatch: pytest.MonkeyPatch, on_removed: str, has_changed: bool
) -> None:
    path = passes.folder / "in/a.parquet"
    write_groups(path, [1], [2], [3])
    write_groups(passes.folder / "in/b.parquet", [4], [5])
    write_groups(passes.folder / "in/c.parquet", [6])
    copy_groups(passes, onRemoved=on_removed)
    if has_changed:
        write_groups(path, [7], [8])
    (passes.folder / "in/c.parquet").unlink()
    monkeypatch.setattr(parquet_source, "count_groups", lambda at: None if at == str(path) else 2)
    second = copy_groups(passes, onRemoved=on_removed)
    # If the number of row groups is unknown, one source would replace several, so the source fails
    # and is retried.
    assert second.code is (ExitCode.SOURCES_FAILED if has_changed else ExitCode.COMPLETE)
    rows = passes.read_rows(NAME, "n")
    assert {2, 3, 4, 5} <= rows.keys()
    assert (6 in rows) == (on_removed == "Keep")
    counters = second.counts["parquet-row-groups"].counters
    assert counters["not looked at: footer of a Parquet file that can't be read"] == 1
    monkeypatch.undo()
    copy_groups(passes, onRemoved=on_removed)
    left = [7, 8] if has_changed else [1, 2, 3]
    check(passes, *left, 4, 5, *([6] if on_removed == "Keep" else []))


def test_a_file_with_an_unreadable_footer_is_not_treated_as_one_group(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_groups(passes.folder / "in/a.parquet", [1], [2])
    write_groups(passes.folder / "in/b.parquet", [3])
    monkeypatch.setattr(parquet_source, "count_groups", lambda _: None)
    first = copy_groups(passes)
    assert (first.code, first.standing.finished) == (ExitCode.SOURCES_FAILED, 1)
    assert "could not be read when it was listed" in first.failures[0].message
    monkeypatch.undo()
    assert copy_groups(passes).code is ExitCode.COMPLETE
    check(passes, 1, 2, 3)


def test_reading_a_footer_is_retried_once(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    write_groups(passes.folder / "in/a.parquet", [1], [2])
    real, calls = pq.read_metadata, []

    def fail_once(file: Any) -> Any:
        calls.append(file)
        if len(calls) == 1:
            msg = "no answer"
            raise RuntimeError(msg)
        return real(file)

    monkeypatch.setattr(pq, "read_metadata", fail_once)
    assert copy_groups(passes).code is ExitCode.COMPLETE
    check(passes, 1, 2)


def write_archive(path: Path, numbers: range) -> None:
    path.parent.mkdir(exist_ok=True)
    pages = [
        Page(f"https://example.com/{number}", "prose", "en", HEAD, b"<html>hello</html>")
        for number in numbers
    ]
    path.write_bytes(b"".join(format_archive(pages)))


def copy_archives(passes: Passes, length: int | None, on_change: str = "Fail") -> AttemptResult:
    return passes.run(
        NAME,
        on_change,
        source={
            "use": "warc-files",
            "with": {"paths": [f"{passes.folder}/in/*.warc"], "rangeBytes": length},
        },
        stages=[
            {"use": "read-warc"},
            {"use": "select-columns", "with": {"columns": ["url"]}},
        ],
        sink={"use": "jsonl"},
    )


def list_urls(numbers: range) -> Counter[str]:
    return Counter(f"https://example.com/{number}" for number in numbers)


def test_ranges_missing_from_a_shorter_archive_are_removed(passes: Passes) -> None:
    write_archive(passes.folder / "in/a.warc", range(20))
    copy_archives(passes, 1000)
    assert passes.read_rows(NAME, "url") == list_urls(range(20))
    write_archive(passes.folder / "in/a.warc", range(30, 33))
    assert copy_archives(passes, 1000).standing.removed > 0
    assert passes.read_rows(NAME, "url") == list_urls(range(30, 33))
    assert passes.find_problems(NAME) == []


@pytest.mark.parametrize(("before", "after"), [(1000, 700), (700, 1000), (None, 700), (700, None)])
def test_a_file_split_in_another_way_is_output_once(
    passes: Passes, before: int | None, after: int | None
) -> None:
    write_archive(passes.folder / "in/a.warc", range(20))
    copy_archives(passes, before)
    copy_archives(passes, after, "Continue")
    assert passes.read_rows(NAME, "url") == list_urls(range(20))
    assert passes.find_problems(NAME) == []


def test_parts_of_a_dataset_are_parts_of_its_files(passes: Passes) -> None:
    def copy() -> AttemptResult:
        return passes.run(
            NAME,
            source={"use": "dataset-folder", "with": {"path": f"{passes.folder}/in"}},
            stages=[{"use": "read-parquet"}],
            sink={"use": "parquet"},
        )

    write_groups(passes.folder / "in/train.parquet", [1], [2], [3])
    copy()
    write_groups(passes.folder / "in/train.parquet", [4])
    assert copy().standing.removed == 2
    assert passes.read_rows(NAME, "n") == Counter([4])


@pytest.mark.parametrize("sink", SINKS[::2])
@pytest.mark.parametrize("on_removed", ["Keep", "Delete"])
def test_line_ranges_missing_from_a_shorter_file_are_removed(
    passes: Passes, sink: Any, on_removed: str
) -> None:
    path = passes.folder / "in/a.jsonl"
    path.parent.mkdir()
    counts = (40, 25, 3, 0, 30)
    for at, count in enumerate(counts):
        path.write_text("".join(f'{{"n": {number}}}\n' for number in range(count)))
        os.utime(path, ns=(at + 1, at + 1))
        copied = passes.run(
            NAME,
            source={
                "use": "jsonl-files",
                "with": {"paths": [str(path)], "rangeBytes": 64, "onRemoved": on_removed},
            },
            stages=[{"use": "read-jsonl"}],
            sink=sink,
        )
        assert copied.code is ExitCode.COMPLETE
        assert passes.read_rows(NAME, "n") == Counter(range(count))
        assert passes.find_problems(NAME) == []
