"""Files of records cut where records begin, so that a broken one costs itself.

A chunk is what a gzip member unpacks to, or the bytes of one record that is not packed. Where one
is broken, the next is looked for by how it begins. It knows bytes and offsets, not what a record
means.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_READ = 1 << 18
_PIECE = 1 << 14  # what follows a member in a piece is copied once more
_UNPACKED = 1 << 20
_GZIP = 31  # zlib's word for a gzip header
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")
_RECORD = re.compile(rb"(?<=\r\n\r\n)WARC/[0-9.]+\r\n[A-Za-z-]+:")
_MARK = b"WARC/"
_OVERLAP = 64  # of two reads, so that what is looked for is not cut
_HEAD_END = b"\r\n\r\n"
BORDER = len(_HEAD_END)  # bytes before a record by which it is known
_MOST_HEAD = 1 << 16
_LENGTH = re.compile(rb"^Content-Length:[ \t]*([0-9]{1,15})[ \t]*\r$", re.MULTILINE | re.IGNORECASE)


class Chunk(NamedTuple):
    """Bytes that hold whole records, or why they are not to be had.

    Attributes:
        offset: where in the file the chunk begins, packed as it is.
        data: unpacked; empty where there is a problem.
        problem: a few words; empty where there is none.
    """

    offset: int
    data: bytes
    problem: str = ""


class _Piece(NamedTuple):
    """What begins at the window's first byte: data or a problem, and how long it is there."""

    data: bytes
    problem: str
    length: int


class _Window:
    """The bytes of a file from an offset on, as far as they were read."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self.offset = offset
        self.data = bytearray()
        self._file = file

    def reach(self, length: int) -> bool:
        """Return whether there are so many bytes, and read on for them."""
        while len(self.data) < length:
            read = self._file.read(_READ)
            if not read:
                return False
            self.data += read
        return True

    def drop(self, length: int) -> None:
        """Leave so many bytes behind."""
        del self.data[:length]
        self.offset += length

    def find(self, pattern: re.Pattern[bytes], skipped: int) -> bool:
        """Move to where the pattern is found next, and return whether it is anywhere."""
        while True:
            found = pattern.search(self.data, skipped)
            if found:
                self.drop(found.start())
                return True
            if not self.reach(len(self.data) + 1):
                return False
            looked_at = max(len(self.data) - _READ - _OVERLAP, 0)
            skipped = max(skipped - looked_at, 0)
            self.drop(looked_at)


def read_members(file: BinaryIO, start: int, stop: int | None, most: int) -> Iterator[Chunk]:
    """Yield the gzip members that begin in a range of a file, unpacked, and those that are broken.

    Args:
        file: at `start`.
        start: where the range begins, which may be within a member of the range before.
        stop: where the next range begins; None: at the end of the file.
        most: bytes that a member may have, packed and unpacked.

    Raises:
        OSError: the file can't be read.
    """
    window = _Window(file, start)
    is_known = start == 0  # that a member begins here; else four bytes may look so by chance
    while is_known or window.find(_MEMBER, 0):
        if not window.reach(1) or (stop is not None and window.offset >= stop):
            return
        piece = _unpack(window, most)
        if is_known or piece.data.startswith(_MARK):
            yield Chunk(window.offset, b"" if piece.problem else piece.data, piece.problem)
        is_known = not piece.problem and (is_known or piece.data.startswith(_MARK))
        window.drop(piece.length if is_known else 1)


def read_records(file: BinaryIO, start: int, stop: int | None, most: int) -> Iterator[Chunk]:
    """Yield the records that begin in a range of a file that is not packed, and the broken ones.

    Args:
        file: at `start`, or `BORDER` bytes before it where that is not 0.
        start, stop, most: as for `read_members`.

    Raises:
        OSError: the file can't be read.
    """
    window = _Window(file, max(start - BORDER, 0))
    is_known = start == 0
    while is_known or window.find(_RECORD, 1):
        if not window.reach(1) or (stop is not None and window.offset >= stop):
            return
        piece = _cut(window, most)
        yield Chunk(window.offset, piece.data, piece.problem)
        is_known = not piece.problem
        window.drop(piece.length)


def _unpack(window: _Window, most: int) -> _Piece:
    inflater = zlib.decompressobj(_GZIP)
    unpacked = bytearray()
    fed = 0
    while not inflater.eof and len(unpacked) <= most and fed <= most:
        if not inflater.unconsumed_tail and not window.reach(fed + 1):
            return _Piece(bytes(unpacked), "truncated", 0)
        piece = inflater.unconsumed_tail or bytes(window.data[fed : fed + _PIECE])
        fed += 0 if inflater.unconsumed_tail else len(piece)
        try:
            unpacked += inflater.decompress(piece, _UNPACKED)
        except zlib.error:
            return _Piece(bytes(unpacked), "damaged compression", 0)
    if len(unpacked) > most or not inflater.eof:
        return _Piece(bytes(unpacked), "too large", 0)
    return _Piece(bytes(unpacked), "", fed - len(inflater.unused_data))


def _cut(window: _Window, most: int) -> _Piece:
    window.reach(_MOST_HEAD)
    head = window.data.find(_HEAD_END, 0, _MOST_HEAD)
    length = _LENGTH.search(window.data, 0, head + 2) if head >= 0 else None
    if length is None or not window.data.startswith(_MARK):
        return _Piece(b"", "no WARC header", 0)
    end = head + BORDER + int(length[1])
    if end > most:
        return _Piece(b"", "too large", 0)
    if not window.reach(end):
        return _Piece(b"", "truncated", 0)
    window.reach(end + BORDER)
    if not _HEAD_END.startswith(window.data[end : end + BORDER]):
        return _Piece(b"", "wrong length", 0)
    return _Piece(bytes(window.data[:end]), "", end + BORDER)
