"""Folders as Spark, Hive, and Hadoop leave them: markers are skipped and counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline_packs.sources.files import Files
from strandline_packs.sources.jsonl_source import JsonlFiles
from strandline_packs.sources.parquet_source import ParquetRowGroups

DATA = ("part-0.parquet", "year=2024/part-1.parquet", "year=2025/lang=en/part-2.parquet")
MARKERS = (
    *("_SUCCESS", "_manifest", "_metadata", "_common_metadata", "_committed_12", "_started_12"),
    *(".part-0.parquet.crc", "year=2024/.part-1.parquet.crc", "._SUCCESS.crc"),
)
IN_FOLDERS = ("_temporary/0/part-9.parquet", "year=2024/_temporary/0/_SUCCESS")
MARKER = "left out: a marker or checksum of Spark, Hive or Hadoop"
FOLDER = "left out: a folder _temporary"


@pytest.fixture(params=["disk", "store"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    place = str(tmp_path) if request.param == "disk" else "memory://spark/out"
    for name in (*DATA, *MARKERS, *IN_FOLDERS):
        with fsspec.open(f"{place}/{name}", "wb", auto_mkdir=True) as file:
            if name in DATA:
                pq.write_table(pa.table({"n": [1]}), file)
            else:
                file.write(b"x")
    yield place
    fsspec.filesystem("memory").store.clear()


@pytest.mark.parametrize("kind", [Files, JsonlFiles, ParquetRowGroups])
def test_markers_are_skipped_and_counted(
    base: str, kind: type[Files | JsonlFiles | ParquetRowGroups]
) -> None:
    stage = kind(paths=[f"{base}/**"])
    keys = {source.key.partition("#")[0] for source in stage.list_sources()}
    assert keys == {f"{base}/{name}" for name in DATA}
    assert stage.counters[MARKER] == len(MARKERS)
    assert stage.counters[FOLDER] == 2
    assert stage.gap is None


def test_a_pattern_counts_what_it_would_match(base: str) -> None:
    stage = Files(paths=[f"{base}/*.parquet"])
    assert [source.key for source in stage.list_sources()] == [f"{base}/part-0.parquet"]
    assert stage.counters == {MARKER: 1}  # the checksum of the listed file


@pytest.mark.parametrize("name", ["_SUCCESS", "*/_temporary/0/_SUCCESS", "_temporary/**"])
def test_a_marker_named_explicitly_is_listed(base: str, name: str) -> None:
    stage = Files(paths=[f"{base}/{name}"])
    assert len(list(stage.list_sources())) == 1
    assert stage.counters == {}


def test_a_log_of_a_delta_table_is_reported(tmp_path: Path) -> None:
    for name in ("part-0.parquet", "_delta_log/0.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    stage = Files(paths=[f"{tmp_path}/**"])
    assert len(list(stage.list_sources())) == 1
    ((name, number),) = stage.counters.items()
    assert (number, "files that it has removed are listed" in name) == (1, True)
