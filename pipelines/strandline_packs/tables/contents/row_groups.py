"""Reads row groups of a Parquet file, and checks the file's layout and values.

A Parquet reader follows the offsets in the footer. If bytes are missing or from another file, the
reader would parse wrong bytes as pages. Therefore this module rejects a footer that contradicts
itself, does not end where the pages end, or states a wrong number of rows. It also rejects values
that Arrow accepts unchecked. The module must not depend on tasks.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_TAIL = 8  # size of the footer length and the final signature, in bytes
_END_BYTES = 64 << 10  # size of the first read, which contains most footers
_ADVICE = "fetch the file again"
_CHUNK = 1 << 20
_LARGE_GROUP = 256 << 20
_BUFFER = 8 << 20  # bytes per column, to reduce the requests to stores


class ParquetDamageError(ValueError):
    """Raised if the bytes are not a complete Parquet file.

    The message has the position and a remedy.
    """


class NoParquetError(ParquetDamageError):
    """Raised if the file does not start with Parquet's signature."""


class _Layout(NamedTuple):
    """Layout of a file by its footer.

    Attributes:
        end: end of the last page.
        largest: size of the largest row group as stored, in bytes.
    """

    end: int
    largest: int


class _Unread(io.RawIOBase):
    """Fake file that rejects every read with a KeyError, without a Python stack frame.

    Arrow stores this error forever. A stack frame in the error would keep the caller's tables
    alive.
    """

    read: Any = dict[int, bytes]().__getitem__

    def __init__(self, size: int) -> None:
        self._size, self._at = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = self._size if whence == os.SEEK_END else offset
        return self._at


def open_parquet(
    stream: BinaryIO, *, is_far: bool = False, group: int | None = None
) -> pq.ParquetFile:
    """Open a file after checking that its footer matches its pages. Page checksums are verified.

    Args:
        is_far: whether reads are requests to a store.
        group: row group to read. Its 96-bit times are read as microseconds if any time is outside
            the range of nanoseconds, 1677 to 2262.

    Raises:
        ParquetDamageError: bytes are missing or superfluous, or the file is not Parquet.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise NoParquetError("not Parquet")
    footer = _read_footer(stream, size)
    begin = size - _TAIL - len(footer)
    try:
        metadata, layout = parse_footer(footer, size)
    except UnicodeDecodeError as error:
        what = f"a column's name is not UTF-8 ({error})"
        raise ParquetDamageError(f"the footer is damaged: {what}; {_ADVICE}") from error
    end = layout.end
    if end > begin:
        what = f"pages end at byte {end:,}, after the footer's begin at byte {begin:,}"
        raise ParquetDamageError(f"{what}: bytes are missing; fetch the file again")
    # Between pages and footer, only indexes may occur, not the boundary of another file.
    if (joint := _find_joint(stream, end, begin)) is not None:
        what = f"another Parquet file begins at byte {joint:,}"
        raise ParquetDamageError(
            f"{what}: the file contains two Parquet files; split it into separate files"
        )
    is_large = layout.largest > _LARGE_GROUP
    open_file = partial(
        pq.ParquetFile,
        stream,
        metadata=metadata,
        page_checksum_verification=True,
        # Without a buffer, Arrow reads all compressed data of a group before its first row.
        buffer_size=_BUFFER if is_large else 0,
        # Pre-buffering reads adjacent columns in one request. For a disk, the extra copy costs
        # time.
        pre_buffer=is_far and not is_large,
    )
    parquet = open_file()
    if group is not None and group < metadata.num_row_groups:
        wide = open_file(coerce_int96_timestamp_unit="us")
        return parquet if _has_room(parquet, wide, group) else wide
    return parquet


def _has_room(parquet: pq.ParquetFile, wide: pq.ParquetFile, group: int) -> bool:
    """Return whether nanoseconds can represent all 96-bit times; Arrow changes others silently."""
    schema = parquet.metadata.schema
    columns = [schema.column(at) for at in range(len(schema))]
    paths = [column.path for column in columns if column.physical_type == "INT96"]
    if not paths:
        return True
    names = {path.partition(".")[0] for path in paths}
    exact = pa.schema([field for field in parquet.schema_arrow if field.name in names])
    try:
        for batch in wide.iter_batches(row_groups=[group], columns=sorted(names)):
            pa.Table.from_batches([batch]).select(exact.names).cast(exact)
    except pa.ArrowInvalid:
        return False
    return True


@lru_cache(maxsize=1)
def parse_footer(footer: bytes, size: int) -> tuple[pq.FileMetaData, _Layout]:
    """Return the footer's metadata, and the layout of its file.

    Reading a row group needs the footer, which describes all groups. Without a cache, a file of a
    thousand groups would have its footer parsed a thousand times. The cache key is the footer's
    bytes, so a rewritten file is detected.

    Args:
        footer: stored bytes.
        size: size of the file, in bytes.

    Raises:
        ParquetDamageError: the footer contradicts itself.
        pa.ArrowException, OSError, UnicodeDecodeError: the bytes are not a footer.
    """
    # Arrow parses whole files only: present the footer as a file without pages.
    tail = len(footer).to_bytes(4, "little") + _MAGIC
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + tail))
    return metadata, _measure(metadata, size)


def read_group(
    parquet: pq.ParquetFile,
    group: int,
    columns: Sequence[str] | None = None,
    *,
    most_rows: int,
    most_bytes: int,
) -> Iterator[pa.Table]:
    """Read a row group, or some of its columns, in tables with limited rows and bytes.

    The byte limit is approximate, and a table of one row may exceed the limit. Except for its
    compressed data, the group is never in memory as a whole.

    Raises:
        ParquetDamageError: values are invalid for their column or exceed Arrow's limits, or two
            columns share a name.
    """
    number = parquet.metadata.num_row_groups
    if not number and not group:  # a file without rows may have no row group
        empty = parquet.schema_arrow.empty_table()
        yield empty if columns is None else empty.select(list(columns))
        return
    if group >= number:
        raise ParquetDamageError(f"there is no row group {group}; the file has {number:,}")
    names = Counter(parquet.schema_arrow.names if columns is None else columns)
    twice = [name for name in names if parquet.schema_arrow.names.count(name) > 1]
    if twice:
        what = f"several columns are called {twice[0]!r}"
        raise ParquetDamageError(f"{what}; give each a different name when you write the file")
    facts = parquet.metadata.row_group(group)
    # An estimate for rows of similar size; larger batches are split below.
    fitting = max(most_bytes * facts.num_rows // max(facts.total_byte_size, 1), 1)
    batches = parquet.iter_batches(
        batch_size=min(most_rows, fitting),
        row_groups=[group],
        columns=None if columns is None else list(columns),
    )
    at = 0
    try:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            _check_values(table, group)
            if table.num_rows:
                yield from _cut(table, most_bytes)
            at += table.num_rows
        if at != facts.num_rows:  # Arrow silently skips pages of unknown types
            what = f"row group {group} has {at:,} of {facts.num_rows:,} rows: a page is damaged"
            raise ParquetDamageError(f"{what}; {_ADVICE}")
    except (pa.ArrowException, OSError, OverflowError) as error:
        # Arrow raises these errors for damaged pages, and for values that exceed its limits.
        raise ParquetDamageError(f"row group {group}, from row {at:,}: {error}") from error


def _cut(table: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Halve a table repeatedly, until each piece is within the limit or has one row."""
    if table.num_rows <= 1 or table.nbytes <= most_bytes:
        yield table
        return
    half = table.num_rows // 2
    yield from _cut(table.slice(0, half), most_bytes)
    yield from _cut(table.slice(half), most_bytes)


def _check_values(table: pa.Table, group: int) -> None:
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            what = f"row group {group}, the column {name!r}: {error}"
            raise ParquetDamageError(what) from error


def _read_footer(stream: BinaryIO, size: int) -> bytes:
    stream.seek(max(size - _END_BYTES, 0))
    end = stream.read(_END_BYTES)
    length = int.from_bytes(end[-_TAIL:-4], "little")
    begin = size - _TAIL - length
    if len(end) < _TAIL or end[-4:] != _MAGIC or begin < len(_MAGIC):
        what = f"there is no footer at the end, byte {size:,}"
        raise ParquetDamageError(f"{what}: the file is cut or damaged; fetch it again")
    if length + _TAIL > len(end):
        stream.seek(begin)
        return stream.read(length)
    return end[-_TAIL - length : -_TAIL]


def _measure(metadata: pq.FileMetaData, size: int) -> _Layout:
    """Return the layout of a file after checking that its footer is consistent.

    A footer has no checksum, so consistency is the only evidence.
    """
    _check_columns(metadata, size)
    end, largest, rows = len(_MAGIC), 0, 0
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(at) for at in range(group.num_columns)]
        if paths != [chunk.path_in_schema for chunk in chunks]:
            what = f"row group {number} has other columns than the file"
            raise ParquetDamageError(f"the footer is damaged: {what}; {_ADVICE}")
        end = max(end, *map(_find_end, chunks))
        largest = max(largest, sum(chunk.total_compressed_size for chunk in chunks))
        rows += group.num_rows
    if rows != metadata.num_rows:
        what = f"its row groups have {rows:,} rows, the file {metadata.num_rows:,}"
        raise ParquetDamageError(f"the footer is damaged: {what}; {_ADVICE}")
    return _Layout(end, largest)


def _check_columns(metadata: pq.FileMetaData, size: int) -> None:
    """Check that Arrow can compute the positions of columns.

    If a column's metadata is contradictory, a plain read makes Arrow abort the process. With
    pre-buffering, Arrow first computes the positions of all columns and raises an error instead.
    The fake file prevents actual reads.
    """
    if not metadata.num_row_groups:
        return
    unread = pq.ParquetFile(_Unread(size), metadata=metadata, pre_buffer=True)
    try:
        # A type that Arrow can't read is no damage; reading the rows reports the type.
        with suppress(pa.ArrowNotImplementedError):
            unread.read_row_groups(range(metadata.num_row_groups), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ParquetDamageError(f"the footer is damaged: {error}; {_ADVICE}") from error
    except KeyError as refusal:
        refusal.__traceback__ = None  # see `_Unread`


def _find_end(chunk: pq.ColumnChunkMetaData) -> int:
    """Return the end of the last page in a column chunk."""
    begin = chunk.data_page_offset
    # As in Arrow, offset 0 means that the dictionary page does not exist.
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    return int(begin + chunk.total_compressed_size)


def _find_joint(stream: BinaryIO, begin: int, end: int) -> int | None:
    """Return the start of a second file: a signature right after another signature."""
    mark, kept = _MAGIC * 2, b""
    stream.seek(begin)
    while begin < end and (piece := stream.read(min(_CHUNK, end - begin))):
        begin += len(piece)
        window = kept + piece
        if (at := window.find(mark)) >= 0:
            return begin - len(window) + at + len(_MAGIC)
        # Keep the last bytes, because the mark may cross two pieces.
        kept = window[-len(mark) + 1 :]
    return None
