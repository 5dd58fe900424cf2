"""Files on web servers without lengths, ranges, or versions."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odd_web_server import Manners, OddWeb, serve_oddly
from strandline import ExitCode, Outcome, Pipeline
from strandline.plan.stages.ends import SourceStage
from strandline.plan.stages.stage import Stage
from strandline.stages import JsonlFiles, JsonlSink, ParquetRowGroups, ReadJsonl, ReadParquet
from strandline.storage.access.stores import open_url

ROWS = 40
SILENT = {
    "no length": Manners(),
    "chunks": Manners(chunked=True),
    "a length, no parts": Manners(length=True),
    "no length, an ETag": Manners(etag='"1"'),
    "as it should": Manners(length=True, parts=True, etag='"1"'),
}
LINES = b"".join(b'{"n": %d}\n' % number for number in range(ROWS))


def build_parquet() -> bytes:
    file = io.BytesIO()
    # Larger than one fetch, so that reading needs more than the beginning.
    noise = pa.array([bytes([n]) * 9 + str(n * 7919).encode() * 40_000 for n in range(ROWS)])
    table = pa.table({"n": range(ROWS), "noise": noise})
    pq.write_table(table, file, row_group_size=ROWS // 2, compression="none", use_dictionary=False)
    return file.getvalue()


PARQUET = build_parquet()


def run(source: SourceStage, reader: Stage, tmp_path: Any) -> Outcome:
    pipeline = Pipeline("web", source=source, stages=[reader], sink=JsonlSink())
    return pipeline.run(tmp_path / "volume", engine="inline")


def count_rows(tmp_path: Any) -> int:
    files = (tmp_path / "volume").rglob("output/**/*.jsonl")
    return sum(len(path.read_bytes().splitlines()) for path in files)


@pytest.mark.parametrize("manners", SILENT.values(), ids=SILENT)
def test_law_files_are_read_completely_from_any_server(manners: Manners, tmp_path: Any) -> None:
    with serve_oddly(manners) as web:
        web.files = {"/a.jsonl": LINES, "/b.jsonl.gz": gzip.compress(LINES)}
        source = JsonlFiles(paths=[f"{web.url}/a.jsonl", f"{web.url}/b.jsonl.gz"])
        outcome = run(source, ReadJsonl(), tmp_path)
    assert outcome.code is ExitCode.COMPLETE
    assert count_rows(tmp_path) == 2 * ROWS


@pytest.mark.parametrize("manners", SILENT.values(), ids=SILENT)
def test_law_parquet_is_read_from_any_server(manners: Manners, tmp_path: Any) -> None:
    with serve_oddly(manners) as web:
        web.files = {"/a.parquet": PARQUET}
        source = ParquetRowGroups(paths=[f"{web.url}/a.parquet"])
        outcome = run(source, ReadParquet(columns=["n"]), tmp_path)
    assert outcome.code is ExitCode.COMPLETE, outcome.failures
    assert count_rows(tmp_path) == ROWS


def test_a_file_without_a_length_is_read_once_and_whole() -> None:
    with serve_oddly(Manners()) as web:
        web.files = {"/a.parquet": PARQUET}
        with open_url(f"{web.url}/a.parquet") as file:
            before = Counter(web.gets)
            assert pq.ParquetFile(file).read(["n"]).num_rows == ROWS
            file.seek(0)
            assert file.read() == PARQUET
        assert Counter(web.gets) == before


@pytest.mark.parametrize(
    "manners",
    [Manners(chunked=True, cut=1000), Manners(length=True, cut=1000)],
    ids=["chunks", "a length"],
)
def test_a_lost_connection_fails_only_its_source(manners: Manners, tmp_path: Any) -> None:
    with serve_oddly(manners) as web:
        web.files = {"/a.parquet": PARQUET, "/small.parquet": b""}
        (tmp_path / "here.parquet").write_bytes(PARQUET)
        paths = [f"{web.url}/a.parquet", f"{tmp_path}/here.parquet"]
        outcome = run(ParquetRowGroups(paths=paths), ReadParquet(columns=["n"]), tmp_path)
    assert outcome.code is ExitCode.SOURCES_FAILED
    (failure,) = outcome.failures
    assert failure.key == f"{web.url}/a.parquet#rg=0"
    assert "a.parquet: can't be read to its end" in failure.message
    assert count_rows(tmp_path) == ROWS


def list_versions(web: OddWeb, **params: Any) -> tuple[list[str], dict[str, int]]:
    stage = JsonlFiles(paths=[f"{web.url}/a.jsonl"], **params)
    return [source.version for source in stage.list_sources()], stage.counters


@pytest.mark.parametrize(
    ("manners", "is_told"),
    [
        (Manners(), True),
        (Manners(length=True), True),
        (Manners(etag='"1"'), False),
        (Manners(length=True, modified="Thu, 26 Nov 2026 07:00:00 GMT"), False),
    ],
)
def test_missing_versions_are_reported(manners: Manners, is_told: bool) -> None:
    with serve_oddly(manners) as web:
        web.files = {"/a.jsonl": LINES}
        _, counters = list_versions(web)
    assert any("can't detect versions there" in name for name in counters) is is_told


def test_a_time_of_change_is_a_version() -> None:
    times = ("Thu, 26 Nov 2026 07:00:00 GMT", "Thu, 26 Nov 2026 08:00:00 GMT")
    with serve_oddly(Manners(length=True, modified=times[0])) as web:
        web.files = {"/a.jsonl": LINES}
        first, _ = list_versions(web)
        web.manners = Manners(length=True, modified=times[1])
        assert list_versions(web)[0] != first


def test_contents_are_versions_if_read() -> None:
    with serve_oddly(Manners()) as web:
        web.files = {"/a.jsonl": LINES}
        first, counters = list_versions(web, version="content")
        web.files = {"/a.jsonl": LINES.replace(b"1", b"2")}
        assert list_versions(web, version="content")[0] != first
    assert counters == {}
