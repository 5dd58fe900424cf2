"""Bytes fetched from a store: the assigned part of a file, and little more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.config import conf
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from strandline.data.files.opening import RANGE_AHEAD
from strandline.data.tables.file_references import FileReference
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.pass_files import read_portions
from strandline_packs.sources.jsonl_source import JsonlFiles
from strandline_packs.sources.parquet_source import ParquetRowGroups
from strandline_packs.sources.warc_source import WarcFiles
from strandline_packs.tables.contents import row_groups
from strandline_packs.tables.read_jsonl import ReadJsonl
from strandline_packs.tables.read_parquet import ReadParquet
from strandline_packs.tables.shuffle.partition_files import (
    PartitionRules,
    read_parts,
    write_partitions,
)
from strandline_packs.web.warc.read_warc import ReadWarc
from web_archive import Page, format_page

Reader = ReadParquet | ReadJsonl | ReadWarc
KIB = 1 << 10
MIB = 1 << 20


class CountedFile(AbstractBufferedFile):  # type: ignore[misc] # fsspec has no types
    """A file that records all fetched ranges."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        CountedStore.fetched.append((start, end))
        return Path(self.path).read_bytes()[start:end]


class CountedStore(AbstractFileSystem):  # type: ignore[misc] # as above
    """A store whose objects are local files."""

    protocol = "counted"
    fetched: ClassVar[list[tuple[int, int]]] = []
    ahead: ClassVar[int] = 50 << 20  # bytes that the S3 library reads ahead by default

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": Path(path).stat().st_size, "type": "file", "ETag": "1"}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        entries = [self.info(str(child)) for child in Path(path).iterdir()]
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **_: Any) -> Any:
        size = self.ahead if block_size in (None, "default") else block_size
        return CountedFile(self, path, mode, block_size=size)


@pytest.fixture(autouse=True)
def store() -> None:
    fsspec.register_implementation("counted", CountedStore, clobber=True)


def fetch(stage: Reader, source: Source) -> tuple[int, int, int]:
    """Read a source; return its rows, the number of requests, and the fetched bytes."""
    CountedStore.fetched.clear()
    rows = sum(task.table.num_rows for task in stage.process(Task(source.data)))
    sizes = [end - start for start, end in CountedStore.fetched]
    return rows, len(sizes), sum(sizes)


def write_groups(path: Path, groups: int, columns: int, rows: int) -> list[int]:
    """Write incompressible numbers; return the stored size of each row group."""
    draw = np.random.default_rng(0)
    table = pa.table({f"c{at:03}": draw.random(groups * rows) for at in range(columns)})
    pq.write_table(table, path, row_group_size=rows)
    facts = pq.read_metadata(path)
    return [
        sum(facts.row_group(at).column(column).total_compressed_size for column in range(columns))
        for at in range(groups)
    ]


def test_law_only_the_row_group_of_a_file_is_fetched(tmp_path: Path) -> None:
    sizes = write_groups(tmp_path / "a.parquet", groups=8, columns=60, rows=2_000)
    sources = ParquetRowGroups(paths=[f"counted://{tmp_path}/a.parquet"]).list_sources()
    for source, size in zip(sources, sizes, strict=True):
        rows, requests, fetched = fetch(ReadParquet(), source)
        assert rows == 2_000
        assert fetched <= size + 256 * KIB
        assert requests <= 6  # adjacent columns need one request


def test_excluded_columns_are_not_fetched(tmp_path: Path) -> None:
    sizes = write_groups(tmp_path / "a.parquet", groups=4, columns=50, rows=4_000)
    sources = ParquetRowGroups(paths=[f"counted://{tmp_path}/a.parquet"]).list_sources()
    for source, size in zip(sources, sizes, strict=True):
        rows, _, fetched = fetch(ReadParquet(columns=["c003"]), source)
        assert rows == 4_000
        assert fetched <= size / 50 + 256 * KIB


def test_law_a_pass_fetches_the_columns_that_it_reads(tmp_path: Path) -> None:
    sizes = write_groups(tmp_path / "a.parquet", groups=4, columns=50, rows=4_000)
    CountedStore.fetched.clear()
    file = FileReference("a", f"counted://{tmp_path}/a.parquet")
    assert sum(table.num_rows for table in read_portions(file, ["c003"])) == 16_000
    assert sum(end - start for start, end in CountedStore.fetched) <= sum(sizes) / 50 + MIB


def test_law_only_the_partition_of_a_file_is_fetched(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = pa.table({"key": [f"k{at}" for at in range(64_000)], "x": draw.random(64_000)})
    path = tmp_path / "parted.parquet"
    with path.open("wb") as opened:
        write_partitions(table, PartitionRules(16, "key", seed=1), opened)
    for number in range(16):
        CountedStore.fetched.clear()
        file = FileReference("a", f"counted://{path}")
        rows, _ = read_parts([file], range(number, number + 1))
        assert rows.num_rows > 0
        fetched = sum(end - start for start, end in CountedStore.fetched)
        assert fetched <= path.stat().st_size / 8 + 256 * KIB
        assert len(CountedStore.fetched) <= 4


def list_lines_of(folder: Path) -> Iterator[tuple[Reader, Source]]:
    line = json.dumps({"text": "x" * 1_000}).encode() + b"\n"
    (folder / "a.jsonl").write_bytes(line * (24 * MIB // len(line)))
    files = JsonlFiles(paths=[f"counted://{folder}/a.jsonl"], range_bytes=MIB)
    return ((ReadJsonl(), source) for source in files.list_sources())


def list_pages_of(folder: Path) -> Iterator[tuple[Reader, Source]]:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
    body = b"<html>" + b"x" * MIB
    pages = (Page(f"https://a.example/{at}", "prose", "en", head, body) for at in range(24))
    (folder / "a.warc").write_bytes(b"".join(map(format_page, pages)))
    files = WarcFiles(paths=[f"counted://{folder}/a.warc"], range_bytes=MIB)
    return ((ReadWarc(), source) for source in files.list_sources())


@pytest.mark.parametrize("list_ranges", [list_lines_of, list_pages_of])
def test_law_only_the_range_of_a_file_is_fetched(list_ranges: Any, tmp_path: Path) -> None:
    number = 0
    for stage, source in list_ranges(tmp_path):
        rows, _, fetched = fetch(stage, source)
        # The range itself, plus read-ahead after the range and after the file's first bytes.
        assert fetched <= 2 * MIB + 2 * RANGE_AHEAD
        number += rows
    assert number >= 24


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that collects the size of each file whose footer is measured."""
    sizes: list[int] = []
    measure = row_groups._measure

    def look(metadata: pq.FileMetaData, size: int) -> Any:
        sizes.append(size)
        return measure(metadata, size)

    monkeypatch.setattr(row_groups, "_measure", look)
    row_groups.parse_footer.cache_clear()
    return sizes


def test_law_a_footer_is_measured_once_for_all_groups(tmp_path: Path, measured: list[int]) -> None:
    write_groups(tmp_path / "a.parquet", groups=30, columns=5, rows=3)
    for source in ParquetRowGroups(paths=[str(tmp_path / "a.parquet")]).list_sources():
        assert fetch(ReadParquet(), source)[0] == 3
    assert len(measured) == 1


def test_a_rewritten_file_is_measured_again(tmp_path: Path, measured: list[int]) -> None:
    path = tmp_path / "a.parquet"
    for values in ([1, 2], [3, 4]):  # same size and name
        pq.write_table(pa.table({"n": values}), path)
        (source,) = ParquetRowGroups(paths=[str(path)]).list_sources()
        (task,) = ReadParquet().process(Task(source.data))
        assert task.table["n"].to_pylist() == values
    assert len(measured) == 2


# fsspec leaves the file of a cache open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cache_in_blocks_is_read_by_all_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedStore, "ahead", 4 * KIB)
    monkeypatch.setitem(conf, "blockcache", {"cache_storage": str(tmp_path / "cache")})
    write_groups(tmp_path / "a.parquet", groups=3, columns=2, rows=2_000)
    url = f"blockcache::counted://{tmp_path}/a.parquet"
    for source in ParquetRowGroups(paths=[url]).list_sources():
        assert fetch(ReadParquet(), source)[0] == 2_000
