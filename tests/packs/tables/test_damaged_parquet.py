"""Parquet files damaged by networks and people give the same rows or a clear error."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError

ROWS = 300


def write(shift: int = 0, **options: Any) -> bytes:
    table = pa.table(
        {
            "n": [number + shift for number in range(ROWS)],
            "t": [f"text {(number + shift) % 97}" for number in range(ROWS)],
            "l": [[number + shift] * (number % 3) for number in range(ROWS)],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=100, **({"write_page_checksum": True} | options))
    return file.getvalue()


def read(path: Path, content: bytes) -> list[dict[str, Any]]:
    path.write_bytes(content)
    sources = StageRun("parquet-row-groups", paths=[str(path)]).sources()
    assert sources
    rows = []
    for source in sources:
        for table in StageRun("read-parquet").tables(source.data.to_pylist()):
            rows += table.to_pylist()
    return rows


def is_lossless(path: Path, content: bytes, rows: list[dict[str, Any]]) -> bool:
    try:
        return read(path, content) == rows
    except UnreadableFileError as error:
        return str(path) in str(error)


@given(data=st.data(), has_index=st.booleans())
def test_damage_gives_the_same_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, *, has_index: bool
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    whole = write(write_page_index=has_index)
    rows = read(path, whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    size = data.draw(st.sampled_from([1, 50, 1000]))
    broken = data.draw(
        st.sampled_from(
            [
                whole[:at],
                whole[:at] + whole[at + size :],
                whole[:at] + bytes(size) + whole[at:],
                whole + whole[: at + 1],
            ]
        )
    )
    assert is_lossless(path, broken, rows)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_checked_page_gives_the_same_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    whole = write()
    rows = read(path, whole)
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(0).column(1)
    begin, end = chunk.data_page_offset + 64, chunk.data_page_offset + 90  # after the page header
    position = begin + int((end - begin) * at)
    flipped = whole[position] ^ (1 << bit)
    assert is_lossless(path, whole[:position] + bytes([flipped]) + whole[position + 1 :], rows)


@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_footer_gives_the_same_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, at: float, bit: int
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    whole = write()
    rows, schema = read(path, whole), pq.read_schema(path)
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    position = len(whole) - footer + int(footer * at)
    flipped = whole[position] ^ (1 << bit)
    broken = whole[:position] + bytes([flipped]) + whole[position + 1 :]
    assert is_lossless(path, broken, rows) or schema != pq.read_schema(path)


# Encoded parts of a footer: column `n` with its nullability, another name, and the row count.
NULLABLE, RENAMED, COUNTED = b"%\x02\x18\x01n", b"%\x02\x18\x01m", b"\x16\xd8\x04\x19"


@pytest.mark.parametrize(
    ("found", "damage", "message"),
    [
        (NULLABLE, b"%\x00\x18\x01n", "the footer is damaged: .*level histogram"),
        (NULLABLE, RENAMED, "row group 0 has other columns than the file"),
        (NULLABLE, b"%\x02\x18\x01\xff", "a column's name is not UTF-8"),
        (COUNTED, b"\x16\xd6\x04\x19", "row groups have 300 rows, the file 299"),
    ],
)
def test_a_footer_that_contradicts_itself_is_named(
    tmp_path: Path, found: bytes, damage: bytes, message: str
) -> None:
    whole = write()
    assert 1 == whole.count(found)
    with pytest.raises(UnreadableFileError, match=rf"a\.parquet: .*{message}.*; fetch the file"):
        read(tmp_path / "a.parquet", whole.replace(found, damage))


def test_a_page_of_an_unknown_kind_does_not_end_the_rows(tmp_path: Path) -> None:
    whole = bytearray(write())
    (tmp_path / "a.parquet").write_bytes(whole)
    chunk = pq.read_metadata(tmp_path / "a.parquet").row_group(1).column(0)
    assert whole[chunk.data_page_offset : chunk.data_page_offset + 2] == b"\x15\x00"
    whole[chunk.data_page_offset + 1] ^= 1 << 5
    with pytest.raises(UnreadableFileError, match="row group 1 has 0 of 100 rows"):
        read(tmp_path / "a.parquet", bytes(whole))


@pytest.mark.parametrize("has_index", [False, True])
def test_two_concatenated_files_are_not_read_with_each_others_pages(
    tmp_path: Path, *, has_index: bool
) -> None:
    joined = write(0, write_page_index=has_index) + write(1000, write_page_index=has_index)
    with pytest.raises(UnreadableFileError, match="another Parquet file begins at byte"):
        read(tmp_path / "a.parquet", joined)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not Parquet; its first bytes are those of nothing: the file is empty"),
        (gzip.compress(write()), "not Parquet; its first bytes are those of gzip"),
        (b'{"n": 1}\n' * 9, "those of JSON Lines: read it with read-jsonl"),
        (b"<html><body>Log in</body></html>", "those of a login page"),
        (write()[:-100], "no footer at the end"),
        (write()[:4], "no footer at the end"),
        (write()[:500] + write()[600:], "bytes are missing"),
    ],
)
def test_incomplete_parquet_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=rf"a\.parquet: .*{message}"):
        read(tmp_path / "a.parquet", content)


def test_invalid_utf_8_is_named_by_its_column(tmp_path: Path) -> None:
    garbled = pa.array([b"ok", b"\xff\xfe"], pa.binary()).view(pa.string())
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [1, 2], "t": garbled}), file)
    with pytest.raises(UnreadableFileError, match=r"row group 0, the column 't': .*Invalid UTF8"):
        read(tmp_path / "a.parquet", file.getvalue())


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]), file)
    with pytest.raises(UnreadableFileError, match="several columns are called 'n'"):
        read(tmp_path / "a.parquet", file.getvalue())
