"""Files of several formats side by side: each is read by its name, into one schema."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from stage_runs import Rows, StageRun
from strandline.data.files.file_formats import RowFormat, find_ending, find_format
from strandline.data.files.opening import UnreadableFileError

BOM = b"\xef\xbb\xbf"
GOOD: dict[str, tuple[bytes, list[Any]]] = {
    "a.csv": (BOM + b"text,n\r\nx,1\r\ny,\r\n", [("x", "1"), ("y", "")]),
    "a.TSV": (b"text\tn\nx,y\t1\n", [("x,y", "1")]),
    "a.csv.gz": (gzip.compress(b"text,n\nx,1\n"), [("x", "1")]),
    "a.jsonl": (BOM + b'{"text": "x", "n": 1}\n\n{"text": "y", "n": 2}', [("x", 1), ("y", 2)]),
    "a.ndjson.gz": (gzip.compress(b'{"text": "x", "n": 1}\n'), [("x", 1)]),
    "a.json": (b'{"text": "x", "n": 1}\n', [("x", 1)]),
    "a.txt": (BOM + b"two\nlines\n", [("two\nlines\n", None)]),
    "a.txt.gz": (gzip.compress("é".encode()), [("é", None)]),
    "empty.csv": (b"", []),
    "only-names.csv": (b"text,n\n", []),
    "empty.jsonl": (b"", []),
    "empty.txt": (b"", []),
    "blank.txt.gz": (gzip.compress(b" \n"), []),
}


def list_rows(folder: Path, run: StageRun, *names: str) -> Rows:
    references = [{"key": name, "path": str(folder / name)} for name in names]
    return [row for table in run.tables(references) for row in table.to_pylist()]


@pytest.mark.parametrize("name", GOOD)
def test_the_name_of_a_file_selects_its_reader(tmp_path: Path, name: str) -> None:
    content, expected = GOOD[name]
    (tmp_path / name).write_bytes(content)
    run = StageRun("read-rows")
    rows = list_rows(tmp_path, run, name)
    assert [(row["text"], row.get("n")) for row in rows] == expected
    assert all(row["key"].startswith(name) for row in rows)
    assert run.counters == ({"dropped: empty text file": 1} if not rows and ".txt" in name else {})


def test_all_row_groups_of_a_parquet_file_and_all_batches_are_read(tmp_path: Path) -> None:
    table = pa.table({"n": range(10)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    feather.write_feather(table, tmp_path / "a.feather", chunksize=3)
    rows = list_rows(tmp_path, StageRun("read-rows"), "a.parquet", "none.parquet", "a.feather")
    assert [row["n"] for row in rows] == [*range(10), *range(10)]
    assert rows[4]["key"] == "a.parquet#rg=1.0"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"", "a.parquet: not Parquet"),
        ("a.parquet", b"PAR1 cut short", "a.parquet: "),
        ("a.arrow", b"", "neither an Arrow file nor an Arrow stream"),
        ("a.txt", b"caf\xe9", "a.txt: not text in UTF-8; its first bytes are those of text"),
        ("a.txt", "x".encode("utf-16"), "those of UTF-16: convert it to UTF-8"),
        ("a.txt.gz", b"no gzip", "a.txt.gz: "),
        ("a.json", b"[\n{}\n]", "those of one JSON array"),
        ("a.csv", b"a;b\n1;2\n3;4\n", "set `delimiter`"),
        ("a.jsonl", b"{}\nno\n", "a.jsonl#L2: not a JSON object"),
        ("README.md", b"# Hello", "README.md: the name has none of the known endings (.csv, "),
        ("a.parquet.gz", b"", "leave the file out with `exclude`, or set `unknownFiles: drop`"),
    ],
)
def test_bad_files_fail_with_a_reason(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError) as caught:
        list_rows(tmp_path, StageRun("read-rows"), name)
    assert message in str(caught.value)


def test_other_files_and_bad_lines_are_dropped_and_counted_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n3\n")
    (tmp_path / "b.jsonl").write_text('{"a": "4"}\nno\n')
    names = ["README.md", "more.md", "Makefile", f"x.{'y' * 20}"]
    for name in names:
        (tmp_path / name).touch()
    run = StageRun("read-rows", delimiter=";", badLines="drop", unknownFiles="drop")
    rows = list_rows(tmp_path, run, "a.csv", "b.jsonl", *names)
    assert [row["a"] for row in rows] == ["1", "4"]
    assert run.counters == {
        "dropped: other number of values": 1,
        "dropped: not a JSON object": 1,
        "dropped: file of another kind (.md)": 2,
        "dropped: file of another kind (no known ending)": 2,
    }


@pytest.mark.parametrize(
    ("path", "ending", "kind"),
    [
        ("s3://bucket/a.b/data.CSV.GZ", ".CSV.GZ", RowFormat.CSV),
        ("a.parquet.zst", ".parquet.zst", None),
        ("a.2026-01-01", ".2026-01-01", None),
        ("folder.csv/name", "", None),
        ("a.gz", ".gz", None),
        ("a.tar.gz", ".tar.gz", None),
    ],
)
def test_endings_include_the_compression(path: str, ending: str, kind: RowFormat | None) -> None:
    assert find_ending(path) == ending
    assert find_format(path) is kind
