"""Folders and tables as written by Spark, exports, and people."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from material import Case, Json, Sight, complete, fails, put

TABLE = pa.table({"text": [f"text {number}" for number in range(10)]})


def _parquet(table: pa.Table = TABLE) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=4)
    return file.getvalue()


def _arrow() -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return file.getvalue()


def _leave_as_spark(folder: Path) -> None:
    for name in ("day=1/part-0.parquet", "day=2/part-0.parquet", "_temporary/0/part-9.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(_parquet())
    for name in ("_SUCCESS", "_metadata", "day=1/.part-0.parquet.crc"):
        (folder / name).write_bytes(b"x")


def _leave_links(folder: Path) -> None:
    (folder / "a.jsonl").write_text('{"text": "a"}\n')
    (folder / "dead.jsonl").symlink_to(folder / "gone.jsonl")
    (folder / "more").symlink_to(folder.parent)


def _case(
    words: str,
    write: Callable[[Path], object],
    use: str,
    read: Json,
    expected: Sight,
    pattern: str = "*",
) -> Case:
    source: Json = {"use": use, "with": {"paths": [f"FOLDER/{pattern}"]}}
    return Case("folders", words, write, source, [read], expected)


GAP = {"not looked at: footer of a Parquet file that can't be read": 1}
PARQUET, CSV = {"use": "read-parquet"}, {"use": "read-csv"}
ROWS = "name,number\r\na,1\r\nb,2\r\n"
CASES = [
    _case(
        "Spark's, with partitions and a run that was killed",
        _leave_as_spark,
        "parquet-row-groups",
        {"use": "read-parquet", "with": {"partitioning": "hive"}},
        Sight(
            "COMPLETE",
            20,
            {
                "left out: a marker or checksum of Spark, Hive or Hadoop": 3,
                "left out: a folder _temporary": 1,
            },
        ),
        "**",
    ),
    _case(
        "links that lead nowhere, and in a circle",
        _leave_links,
        "jsonl-files",
        {"use": "read-jsonl"},
        Sight(
            "COMPLETE",
            1,
            {
                "not looked at: a broken symbolic link": 1,
                "not looked at: a folder behind a symbolic link": 1,
            },
        ),
        "**",
    ),
    _case(
        "Parquet that was cut",
        put("a.parquet", _parquet()[:-40]),
        "parquet-row-groups",
        PARQUET,
        fails("a.parquet", counted=GAP),
    ),
    _case(
        "Parquet without rows",
        put("a.parquet", _parquet(TABLE.slice(0, 0))),
        "parquet-row-groups",
        PARQUET,
        complete(0),
    ),
    _case(
        "JSON Lines by a name of Parquet's",
        put("a.parquet", b'{"text": "a"}\n'),
        "parquet-row-groups",
        PARQUET,
        fails("JSON Lines", counted=GAP),
    ),
    _case("CSV of Windows", put("a.csv", ROWS.encode()), "files", CSV, complete(2)),
    _case("CSV with a mark", put("a.csv", ROWS.encode("utf-8-sig")), "files", CSV, complete(2)),
    _case("CSV in UTF-16", put("a.csv", ROWS.encode("utf-16")), "files", CSV, fails("UTF-16")),
    _case("a page that is called CSV", put("a.csv", b"<html>"), "files", CSV, fails("HTML")),
    _case("Arrow", put("a.arrow", _arrow()), "files", {"use": "read-arrow"}, complete(10)),
    _case(
        "Arrow that was cut",
        put("a.arrow", _arrow()[:-60]),
        "files",
        {"use": "read-arrow"},
        fails("a.arrow"),
    ),
]
