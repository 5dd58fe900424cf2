"""Row groups of a Parquet file, with its layout and values checked.

A reader of Parquet goes where the footer sends it, so bytes that are missing or that are of another
file are read as pages. Here a footer that does not end where the pages end is an error, and so are
values that Arrow takes from a page without a look. It must not know tasks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_TAIL = 8  # bytes of the footer's length and of the last mark
_CHUNK = 1 << 20


class ParquetDamageError(ValueError):
    """Bytes that are no whole Parquet file; the message says where, and what to do."""


class NoParquetError(ParquetDamageError):
    """A file that does not begin as Parquet does."""


def open_parquet(stream: BinaryIO) -> pq.ParquetFile:
    """Open a file whose footer belongs to its pages; checksums of pages are looked at.

    Raises:
        ParquetDamageError: bytes are missing or too many, or it is no Parquet.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise NoParquetError("not Parquet")
    footer = _find_footer(stream, size)
    stream.seek(0)
    parquet = pq.ParquetFile(stream, page_checksum_verification=True)
    end = _find_end(parquet.metadata)
    if end > footer:
        what = f"pages end at byte {end:,}, after the footer's begin at byte {footer:,}"
        raise ParquetDamageError(f"{what}: bytes are missing; fetch the file again")
    # Between pages and footer are indexes at most, no other file's end and begin.
    if (joint := _find_joint(stream, end, footer)) is not None:
        what = f"another Parquet file begins at byte {joint:,}"
        raise ParquetDamageError(f"{what}: two in one file; give each a file of its own")
    return parquet


def read_group(
    parquet: pq.ParquetFile, group: int, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read a row group, or some columns of it.

    Raises:
        ParquetDamageError: values are no values of their column, or two columns have one name.
    """
    number = parquet.metadata.num_row_groups
    if not number and not group:  # a file without rows may have none
        empty = parquet.schema_arrow.empty_table()
        return empty if columns is None else empty.select(list(columns))
    if group >= number:
        raise ParquetDamageError(f"there is no row group {group}; there are {number:,}")
    names = Counter(parquet.schema_arrow.names if columns is None else columns)
    twice = [name for name in names if parquet.schema_arrow.names.count(name) > 1]
    if twice:
        what = f"several columns are called {twice[0]!r}"
        raise ParquetDamageError(f"{what}; write the file with a name for each")
    table = parquet.read_row_group(group, columns=None if columns is None else list(columns))
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            what = f"row group {group}, the column {name!r}: {error}"
            raise ParquetDamageError(what) from error
    return table


def _find_footer(stream: BinaryIO, size: int) -> int:
    stream.seek(max(size - _TAIL, 0))
    tail = stream.read(_TAIL)
    begin = size - _TAIL - int.from_bytes(tail[:4], "little")
    if len(tail) < _TAIL or tail[4:] != _MAGIC or begin < len(_MAGIC):
        what = f"there is no footer at the end, byte {size:,}"
        raise ParquetDamageError(f"{what}: the file is cut or damaged; fetch it again")
    return begin


def _find_end(metadata: pq.FileMetaData) -> int:
    """Return where the last page ends."""
    ends = [len(_MAGIC)]
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(row_group.num_columns):
            chunk = row_group.column(at)
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                begin = min(begin, chunk.dictionary_page_offset)
            ends.append(begin + chunk.total_compressed_size)
    return max(ends)


def _find_joint(stream: BinaryIO, begin: int, end: int) -> int | None:
    """Return where another file begins: the mark of its begin after that of an end."""
    mark, kept = _MAGIC * 2, b""
    stream.seek(begin)
    while begin < end and (piece := stream.read(min(_CHUNK, end - begin))):
        begin += len(piece)
        window = kept + piece
        if (at := window.find(mark)) >= 0:
            return begin - len(window) + at + len(_MAGIC)
        kept = window[-len(mark) + 1 :]
    return None
