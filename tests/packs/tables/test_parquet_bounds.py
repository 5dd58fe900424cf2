"""Row groups in bounded tasks, with columns from folder names."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.file_references import FileReference
from strandline.plan.task import Task
from strandline.run.compare import output_rows as compared_rows
from strandline.run.revise.marks import dropped_rows
from strandline_packs.dedup.corpus import pass_files
from strandline_packs.sources.parquet_source import ParquetRowGroups
from strandline_packs.tables.contents import row_groups
from strandline_packs.tables.read_parquet import ReadParquet


def list_tasks(path: Path | str, **params: Any) -> list[pa.Table]:
    stage = ReadParquet(**params)
    sources = ParquetRowGroups(paths=[str(path)]).list_sources()
    return [task.table for source in sources for task in stage.process(Task(source.data))]


@given(
    sizes=st.lists(st.integers(0, 3000), max_size=30),
    most_bytes=st.integers(1, 8000),
    most_rows=st.integers(1, 40),
    group=st.integers(1, 40),
)
@settings(max_examples=scale_examples(60))
def test_law_tasks_are_bounded_and_have_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    most_bytes: int,
    most_rows: int,
    group: int,
) -> None:
    path = tmp_path_factory.mktemp("groups") / "a.parquet"
    table = pa.table({"n": range(len(sizes)), "text": ["x" * size for size in sizes]})
    pq.write_table(table, path, row_group_size=group)

    tables = list_tasks(path, max_task_bytes=most_bytes, max_rows=most_rows)

    rows = [row for each in tables for row in each.to_pylist()]
    assert [(row["n"], len(row["text"])) for row in rows] == list(enumerate(sizes))
    keys = [f"{path}#rg={n // group}.{n % group}" for n in range(len(sizes))]
    assert [row["key"] for row in rows] == keys
    assert all(0 < each.num_rows <= most_rows for each in tables)
    for each in tables:
        values = each.select(["n", "text"])
        assert each.num_rows == 1 or values.nbytes <= most_bytes


def test_small_rows_are_split_as_before(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(25_000)}), tmp_path / "a.parquet")
    assert [each.num_rows for each in list_tasks(tmp_path / "a.parquet")] == [10_000, 10_000, 5_000]


@pytest.mark.parametrize("threshold", [0, 1 << 40], ids=["read in parts", "read at once"])
def test_a_huge_row_group_is_never_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: int
) -> None:
    monkeypatch.setattr(row_groups, "_LARGE_GROUP", threshold)
    monkeypatch.setattr(row_groups, "_BUFFER", 1 << 16)
    count, size = 4_000, 10_000
    texts = pa.array([str(n) * (size // len(str(n))) for n in range(count)])
    table = pa.table({"text": texts})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=count, use_dictionary=False)
    whole = table.nbytes
    del table, texts
    (source,) = ParquetRowGroups(paths=[f"{tmp_path}/*"]).list_sources()
    before, most, rows = pa.total_allocated_bytes(), 0, 0

    for task in ReadParquet(max_task_bytes=1 << 20).process(Task(source.data)):
        rows += task.table.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        del task

    assert rows == count
    assert most < whole / 2


READERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "a pass": lambda path: pass_files.read_portions(FileReference("a", path), ["text"]),
    "diff": compared_rows.read_rows,
    "dropped": lambda path: dropped_rows.read_rows(path, ("text",)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_many_row_groups_is_never_in_memory_as_a_whole(
    tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_files, "_BATCH_ROWS", 2_000)
    texts = pa.table({"text": [str(n) * (250 // len(str(n))) for n in range(80_000)]})
    path = str(tmp_path / "a.parquet")
    pq.write_table(texts, path, row_group_size=2_000, use_dictionary=False, compression="none")
    whole = texts.nbytes
    del texts
    # The bytes of the file are Python's, and the tables are Arrow's.
    tracemalloc.start()
    try:
        before = pa.total_allocated_bytes()
        most = max(pa.total_allocated_bytes() - before for _ in READERS[reader](path))
        most += tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < whole


def test_an_unreadable_value_is_reported_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"n": range(30)}), tmp_path / "a.parquet")
    whole = pq.ParquetFile.iter_batches

    def read_twenty(self: pq.ParquetFile, **options: Any) -> Iterator[pa.RecordBatch]:
        for at, batch in enumerate(whole(self, **options)):
            if at == 2:
                msg = "array cannot contain more than 2147483646 bytes"
                raise pa.ArrowCapacityError(msg)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read_twenty)
    with pytest.raises(
        UnreadableFileError, match=r"a\.parquet: row group 0, from row 20: array cannot contain"
    ):
        list_tasks(tmp_path / "a.parquet", max_rows=10)


def test_a_missing_column_gives_only_keys(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(3)}), tmp_path / "a.parquet")
    (table,) = list_tasks(tmp_path / "a.parquet", columns=["key"])
    assert table.column_names == ["key"]
    assert table.num_rows == 3


def test_a_group_without_rows_gives_no_task(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        writer.write_table(schema.empty_table())
        writer.write_table(pa.table({"n": [1]}))
    assert [each.num_rows for each in list_tasks(tmp_path / "a.parquet")] == [1]


def test_folders_become_columns_on_request(tmp_path: Path) -> None:
    for name in ("year=2024", "year=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"n": [1]}), tmp_path / name / "part.parquet")
    tables = list_tasks(f"{tmp_path}/**", partitioning="hive")
    assert {each.schema.field("year").type for each in tables} == {pa.string()}
    years = [year for each in tables for year in each.column("year").to_pylist()]
    assert sorted(map(str, years)) == ["2024", "None"]
    assert {len(each.column_names) for each in list_tasks(f"{tmp_path}/**")} == {2}
    (chosen, *_) = list_tasks(f"{tmp_path}/**", partitioning="hive", columns=["n"])
    assert chosen.column_names == ["n", "year"]


@pytest.mark.parametrize(
    ("folder", "why"),
    [("n=1", "the column 'n' is in the file and"), ("a=1/a=2", "two folders name the column 'a'")],
)
def test_a_column_of_two_meanings_is_refused(tmp_path: Path, folder: str, why: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), tmp_path / folder / "part.parquet")
    with pytest.raises(UnreadableFileError, match=rf"part\.parquet: {why}"):
        list_tasks(f"{tmp_path}/**", partitioning="hive")


def test_law_read_tables_do_not_stay_in_memory(tmp_path: Path) -> None:
    """The reader continues while its last table still exists, as in every stage."""
    pq.write_table(pa.table({"text": [f"{row:09d}" for row in range(50_000)]}), tmp_path / "a")
    sources = list(ParquetRowGroups(paths=[str(tmp_path / "a")]).list_sources())
    held = []
    for _ in range(3):
        for task in ReadParquet(max_rows=50_000).process(Task(sources[0].data)):
            assert task.table.num_rows == 50_000
            del task
        gc.collect()
        held.append(pa.total_allocated_bytes())
    assert max(held) - held[0] < 100_000  # a table has 650,000


read_time = datetime.fromisoformat
FAR, NEAR = read_time("1500-03-01T12:00:00"), read_time("2026-01-02T03:04:05.678901")
FIRST, LAST = read_time("0001-01-01"), read_time("9999-12-31")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.list_(pa.timestamp("us"))])
def test_times_of_96_bits_keep_their_years(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark writes such times; 64-bit nanoseconds only cover the years 1677 to 2262."""
    values: list[list[Any]] = [[NEAR, None], [NEAR, LAST], [FIRST, FAR]]
    if pa.types.is_list(kind):
        values = [[[value] for value in group] for group in values]
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(
        path, pa.schema([("time", kind)]), use_deprecated_int96_timestamps=True
    ) as writer:
        for group in values:
            writer.write_table(pa.table({"time": pa.array(group, kind)}))
    tables = list_tasks(path)
    assert [row["time"] for each in tables for row in each.to_pylist()] == [
        value for group in values for value in group
    ]
    units = [str(each.schema.field("time").type).count("[ns]") for each in tables]
    assert units == [1, 0, 0]  # nanoseconds are kept where they fit


def test_text_stored_as_bytes_is_text_if_the_schema_says_so(tmp_path: Path) -> None:
    values = ["héllo", None, ""]
    raw = [None if value is None else value.encode() for value in values]
    columns = {str(kind): pa.array(raw, kind) for kind in (pa.binary(), pa.large_binary())}
    columns["fixed"] = pa.array([b"abc", None, b"abc"], pa.binary(3))
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", store_schema=False)
    schema = {"key": "text", **dict.fromkeys(columns, "text")}
    (table,) = list_tasks(tmp_path / "a.parquet", schema=schema)
    assert table.column("binary").to_pylist() == values
    assert table.column("large_binary").to_pylist() == values
    assert table.column("fixed").to_pylist() == ["abc", None, "abc"]


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [b"ok", b"\xff\xfe"]}), tmp_path / "a.parquet")
    with pytest.raises(
        UnreadableFileError, match=r"the column 'text' has .*but the schema requires text"
    ):
        list_tasks(tmp_path / "a.parquet", schema={"key": "text", "text": "text"})
