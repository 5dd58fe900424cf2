"""Splits files into records, so that damage costs only the damaged record.

In compressed files the gzip members mark the records; in plain files their lengths do. After damage
the next record is located by its first bytes. The module must not depend on the meaning of records.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Protocol

_READ = 1 << 18  # bytes of a read
_PIECE = 1 << 14  # compressed bytes to decompress at a time
_UNPACKED = 1 << 20  # maximum result of a decompression step, in bytes
_GZIP = 31  # zlib's window size code for the gzip format
# The magic number of gzip, the method deflate, and flags without reserved bits.
_MEMBER = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")
_MEMBER_HEAD = 4
# Also matches records of old writers, which end lines with a line feed only.
_RECORD = re.compile(rb"(?:(?<=\r\n\r\n)|(?<=\n\n))WARC/[0-9.]+\r?\n[A-Za-z-]+:")
_MARK = b"WARC/"
_OVERLAP = 64  # overlap of two reads in bytes, so that a match is not cut
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_TRAILER = re.compile(rb"[\r\n]{0,8}")
_TRAILER_LINES = 2
BORDER = 4  # bytes before a record that identify its start
_AFTER = 8 + len(_MARK)  # bytes after a record that confirm its end
_MOST_HEAD = 1 << 16  # maximum header size in bytes; longer ones count as damage
_LENGTH = re.compile(
    rb"^Content-Length:[ \t]*([0-9]{1,15})[ \t]*\r?$", re.MULTILINE | re.IGNORECASE
)
_DAMAGED = "damaged compression"


class Chunk(NamedTuple):
    """Bytes of a record, or the reason why they are missing.

    Attributes:
        offset: byte offset of the record in the file, or of its gzip member.
        data: uncompressed bytes; empty if there is a problem.
        problem: short reason; empty on success.
    """

    offset: int
    data: bytes
    problem: str = ""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Piece(NamedTuple):
    """Data or a problem at the start of the window, and the number of bytes to drop."""

    data: bytes
    problem: str
    length: int


class _Window:
    """The bytes of a file from an offset to the current read position."""

    def __init__(self, file: _Readable, offset: int) -> None:
        self.offset = offset
        self.data = bytearray()
        self._file = file

    def reach(self, length: int) -> bool:
        """Read until the window has this many bytes; return False at the end of the file."""
        while len(self.data) < length:
            read = self._file.read(_READ)
            if not read:
                return False
            self.data += read
        return True

    def drop(self, length: int) -> None:
        """Drop bytes at the start of the window."""
        del self.data[:length]
        self.offset += length

    def find(self, pattern: re.Pattern[bytes], skipped: int) -> bool:
        """Move to the next match of the pattern; return False if there is none."""
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


class _Members:
    """Decompresses the gzip members at the start of a window, up to the next record.

    Most members contain one record, but some writers compress a whole file into one member, and
    others start members at arbitrary positions. Compressed bytes stay in the window, up to `most`
    bytes, to search them for the next member after damage.

    Attributes:
        problem: reason for an early end; empty if there is none.
        verified: number of uncompressed bytes with a valid checksum.
    """

    def __init__(self, window: _Window, most: int) -> None:
        self.problem = ""
        self.verified = 0
        self._window = window
        self._most = most
        self._size = 0
        self._fed = 0
        self._begin = 0
        self._inflater = zlib.decompressobj(_GZIP)

    def read(self, _: int) -> bytes:
        """Return the next bytes; empty at the end, or after a problem."""
        while not self.problem:
            if self._inflater.eof and not self._begin_next():
                return b""
            try:
                data = self._inflate()
            except zlib.error:
                self.problem = _DAMAGED
                return b""
            if data:
                return data
        return b""

    def drop(self) -> None:
        """Move the window past the bytes that were read, or into the damaged member."""
        self._window.drop(self._begin + 1 if self.problem else self._fed)

    def _inflate(self) -> bytes:
        piece = self._inflater.unconsumed_tail or self._take()
        if not piece:
            self.problem = "truncated"
        data = self._inflater.decompress(piece, _UNPACKED)
        self._size += len(data)
        if self._inflater.eof:
            self._fed -= len(self._inflater.unused_data)
            self.verified = self._size
        return data

    def _take(self) -> bytes:
        if self._fed > self._most:
            self._window.drop(self._fed)
            self._fed = self._begin = 0
        if not self._window.reach(self._fed + 1):
            return b""
        piece = bytes(self._window.data[self._fed : self._fed + _PIECE])
        self._fed += len(piece)
        return piece

    def _begin_next(self) -> bool:
        """Start the next member, unless a record begins there. Return whether a member started."""
        begin = _peek(self._window, self._fed)
        if begin is None or begin.startswith(_MARK):
            return False
        self._begin = self._fed
        self._inflater = zlib.decompressobj(_GZIP)
        return True


def read_members(file: BinaryIO, start: int, stop: int | None, most: int) -> Iterator[Chunk]:
    """Yield the records of gzip members that start in a range of a file, damaged ones included.

    Args:
        file: positioned at `start`.
        start: start of the range, possibly within a member of the previous range.
        stop: start of the next range; None for the end of the file.
        most: size limit of a record, in bytes.

    Raises:
        OSError: the file can't be read.
    """
    window = _Window(file, start)
    # At offset 0, a member certainly starts. Elsewhere, four bytes may match by chance.
    is_known = start == 0
    while is_known or window.find(_MEMBER, 0):
        if not window.reach(1) or (stop is not None and window.offset >= stop):
            return
        if not is_known and not (_peek(window, 0) or b"").startswith(_MARK):
            window.drop(1)
            continue
        members = _Members(window, most)
        yield from _read_unpacked(members, window.offset, most)
        is_known = not members.problem
        members.drop()


def read_records(file: BinaryIO, start: int, stop: int | None, most: int) -> Iterator[Chunk]:
    """Yield the records that start in a range of an uncompressed file, damaged ones included.

    Args:
        file: positioned at `start`, or `BORDER` bytes before it unless `start` is 0.
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


def _peek(window: _Window, at: int) -> bytes | None:
    """Return the first unpacked bytes of the gzip member at a position, or None if missing."""
    window.reach(at + _PIECE)
    if not _MEMBER.match(window.data, at):
        return None
    try:
        piece = bytes(window.data[at : at + _PIECE])
        return zlib.decompressobj(_GZIP).decompress(piece, len(_MARK))
    except zlib.error:
        return None


def _read_unpacked(members: _Members, offset: int, most: int) -> Iterator[Chunk]:
    window = _Window(members, 0)
    problem = ""
    is_known = True
    while is_known or window.find(_RECORD, 1):
        if not window.reach(1):
            break
        piece = _cut(window, most)
        window.drop(piece.length)
        # The last piece is complete only if the checksum after it is valid.
        is_suspect = not window.reach(1) and window.offset > members.verified
        problem = (members.problem if is_suspect or not piece.data else "") or piece.problem
        yield Chunk(offset, b"" if problem else piece.data, problem)
        is_known = not piece.problem
    if members.problem and not problem:
        yield Chunk(offset, b"", members.problem)


def _cut(window: _Window, most: int) -> _Piece:
    window.reach(_MOST_HEAD)
    head = _HEAD_END.search(window.data, 0, _MOST_HEAD)
    length = _LENGTH.search(window.data, 0, head.start() + 1) if head else None
    if head is None or length is None or not window.data.startswith(_MARK):
        return _Piece(b"", "no WARC header", 0)
    end = head.end() + int(length[1])
    if end > most:
        return _Piece(b"", "too large", 0)
    if not window.reach(end):
        return _Piece(b"", "truncated", 0)
    window.reach(end + _AFTER)
    after = _TRAILER.match(window.data, end)
    trailer = after[0] if after else b""
    following = bytes(window.data[end + len(trailer) : end + _AFTER])
    # Writers differ in the blank lines after a record, and the last record may have none.
    if following and trailer.count(b"\n") < _TRAILER_LINES and not following.startswith(_MARK):
        return _Piece(b"", "wrong length", 0)
    return _Piece(bytes(window.data[:end]), "", end + len(trailer))
