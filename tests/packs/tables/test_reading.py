"""Reader stages on good and broken files."""

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stage_runs import Rows, StageRun, Tree
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError


def reference(path: Path, **more: object) -> Rows:
    return [{"key": path.name, "path": str(path), **more}]


def test_read_files_adds_bytes(run: type[StageRun], tree: Tree) -> None:
    root = tree("a", "b")
    rows = [*reference(root / "a"), *reference(root / "b")]
    assert [b"a", b"b"] == [row["content"] for row in run("read-files").rows(rows)]


def test_a_missing_file_fails_the_source_or_is_dropped(run: type[StageRun], tree: Tree) -> None:
    root = tree("a")
    rows = [*reference(root / "a"), *reference(root / "gone")]
    with pytest.raises(UnreadableFileError, match=r"/gone: No such file or directory$"):
        run("read-files").rows(rows)
    dropping = run("read-files", onError="drop")
    assert [b"a"] == [row["content"] for row in dropping.rows(rows)]
    assert {"dropped: unreadable": 1} == dropping.counters
    assert dropping.table(rows[1:]) is None


def test_a_folder_in_place_of_a_file_is_named(run: type[StageRun], tree: Tree) -> None:
    root = tree("b/a")
    with pytest.raises(UnreadableFileError, match="/b: Is a directory"):
        run("read-files").rows(reference(root / "b"))


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.jsonl", bytes),
        ("a.jsonl.gz", gzip.compress),
        ("a.jsonl.bz2", bz2.compress),
        ("a.jsonl.zst", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
    ],
)
def test_jsonl_is_read_in_tasks_of_bounded_size(
    run: type[StageRun], tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(pack(lines({"n": 0}, {"n": 1}, {"n": 2, "x": "é"})))
    (source,) = run("jsonl-files", paths=[f"{tmp_path}/*"]).sources()
    tables = run("read-jsonl", maxRows=2).tables(source.data.to_pylist())
    assert [2, 1] == [table.num_rows for table in tables]
    keys = [key for table in tables for key in table["key"].to_pylist()]
    assert [f"{source.key}#L{number}" for number in (1, 2, 3)] == keys
    assert [{"key": keys[2], "n": 2, "x": "é"}] == tables[1].to_pylist()


def test_empty_lines_are_skipped_and_an_own_key_is_kept(
    run: type[StageRun], tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\n{"key": "mine", "n": 1}\r\n\n{"n": 2}')
    (table,) = run("read-jsonl").tables(reference(path))
    assert ["mine", "a.jsonl#L4"] == table["key"].to_pylist()


def test_an_empty_file_is_filtered(run: type[StageRun], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert [] == run("read-jsonl").tables(reference(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    "bad", [b'{"n": ', b"[1]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"n": 1}{"n": 2}']
)
def test_a_bad_line_fails_by_file_and_number_or_is_dropped(
    run: type[StageRun], tmp_path: Path, bad: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines({"n": 1}) + bad + b"\n" + lines({"n": 3}))
    with pytest.raises(UnreadableFileError, match=r"^a.jsonl#L2: not a JSON object$"):
        run("read-jsonl").tables(reference(path))
    dropping = run("read-jsonl", badLines="drop")
    assert [1, 3] == dropping.tables(reference(path))[0]["n"].to_pylist()
    assert {"dropped: not a JSON object": 1} == dropping.counters


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
    ],
)
def test_a_truncated_or_garbled_archive_is_named(
    run: type[StageRun], tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    whole = pack(lines(*({"n": str(number**7)} for number in range(5000))))
    for content in (whole[: len(whole) // 2], b"no archive at all"):
        path.write_bytes(content)
        with pytest.raises(UnreadableFileError, match=f"a.jsonl{suffix}"):
            run("read-jsonl").tables(reference(path))


def test_a_column_of_mixed_types_is_named(run: type[StageRun], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines({"n": 1}, {"n": "one"}))
    with pytest.raises(UnreadableFileError, match=r"a\.jsonl#L2: the column 'n' has text, where"):
        run("read-jsonl").tables(reference(path))


def test_a_lone_surrogate_is_named(run: type[StageRun], tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"t": "\\ud800"}\n')
    with pytest.raises(UnreadableFileError, match=r"a.jsonl#L1"):
        run("read-jsonl").tables(reference(path))


def write_parquet(path: Path, rows: int, group: int) -> None:
    table = pa.table({"n": range(rows), "square": [number**2 for number in range(rows)]})
    pq.write_table(table, path, row_group_size=group)


def test_row_groups_are_sources(run: type[StageRun], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, 10, 4)
    sources = run("parquet-row-groups", paths=[str(path)]).sources()
    assert [f"{path}#rg={group}" for group in range(3)] == [source.key for source in sources]
    assert 1 == len({source.version for source in sources})
    reader = run("read-parquet", columns=["square"], maxRows=3)
    tables = [reader.tables(source.data.to_pylist()) for source in sources]
    assert [[3, 1], [3, 1], [2]] == [[table.num_rows for table in some] for some in tables]
    squares = [value for some in tables for table in some for value in table["square"].to_pylist()]
    assert [number**2 for number in range(10)] == squares
    assert ["square"] == tables[0][0].column_names


@pytest.mark.parametrize("columns", [None, ["key"], ["n", "key"]])
def test_rows_of_parquet_have_keys_of_their_own(
    run: type[StageRun], tmp_path: Path, columns: list[str] | None
) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, 5, 3)
    reader = run("read-parquet", columns=columns, maxRows=2)
    keys = [
        key
        for source in run("parquet-row-groups", paths=[str(path)]).sources()
        for table in reader.tables(source.data.to_pylist())
        for key in table["key"].to_pylist()
    ]
    rows = ["rg=0.0", "rg=0.1", "rg=0.2", "rg=1.0", "rg=1.1"]
    assert [f"{path}#{row}" for row in rows] == keys


def test_an_own_key_of_parquet_is_kept(run: type[StageRun], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2], "key": ["a", "b"]}), path)
    (table,) = run("read-parquet").tables(reference(path, row_group=0))
    assert ["n", "key"] == table.column_names
    assert ["a", "b"] == table["key"].to_pylist()


def test_a_broken_parquet_file_fails_alone(run: type[StageRun], tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", 3, 3)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nothing of the kind")
    sources = run("parquet-row-groups", paths=[f"{tmp_path}/*.parquet"]).sources()
    assert 2 == len(sources)
    by_key = {source.key.rsplit("/", 1)[1]: source.data.to_pylist() for source in sources}
    assert 1 == len(run("read-parquet").tables(by_key["a.parquet#rg=0"]))
    with pytest.raises(UnreadableFileError, match=r"b.parquet: "):
        run("read-parquet").tables(by_key["b.parquet#rg=0"])


def test_a_parquet_file_without_rows_has_no_tasks(run: type[StageRun], tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", 0, 3)
    for source in run("parquet-row-groups", paths=[f"{tmp_path}/*"]).sources():
        assert [] == run("read-parquet").tables(source.data.to_pylist())


def test_a_missing_column_is_named_with_the_existing_columns(
    run: type[StageRun], tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, 3, 3)
    with pytest.raises(MissingColumnError, match="no column 'cube'; the columns are: n, square"):
        run("read-parquet", columns=["cube"]).tables(reference(path, row_group=0))
    with pytest.raises(MissingColumnError, match="no column 'path'; the columns are: x"):
        run("read-files").rows([{"x": 1}])
