"""Reads the members of a tar, and accounts for every byte of the archive.

Python's tarfile stops silently at the first unreadable block, so it mistakes damage for the end.
This module accepts only three kinds of blocks: headers with a valid checksum, content of members,
and the final zeros. Any other block raises an error with its position. The module must not depend
on the use of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

_BLOCK = 512
_CHUNK = 1 << 20
# Final zeros: two blocks, and padding to the usual record of 20 blocks.
_MOST_ZEROS = 2 * _BLOCK + 20 * _BLOCK
_MOST_HEADER_BYTES = 1 << 20  # maximum size of an extended header; paths have a few thousand bytes
_CHECKSUM = slice(148, 156)
_BASE_256 = 0x80
_NEGATIVE = 0x40

_FILES = b"0\x007"  # regular, in old notation, and contiguous
_FOLDER = b"5"
_NO_FILES = b"12346"  # links, devices, pipes
_LABEL = b"V"
_LONG_NAME, _LONG_LINK = b"L", b"K"
_EXTENDED, _GLOBAL = b"xX", b"g"


class TarDamageError(ValueError):
    """Raised if the bytes are not a complete tar.

    The message contains the position and a remedy.
    """


class NoTarError(TarDamageError):
    """Raised if the file does not start with a tar header."""


class TarMember(NamedTuple):
    """A member of an archive.

    Attributes:
        offset: byte offset of its header in the uncompressed archive.
        content: bytes of a wanted file; empty for other members.
    """

    name: str
    offset: int
    is_file: bool
    is_folder: bool
    content: bytes


@dataclass
class _ExtendedFields:
    """Fields of extended headers for the next member."""

    name: str | None = None
    size: int | None = None


@dataclass
class _TarStream:
    """The bytes of an archive, and the read position."""

    file: BinaryIO
    offset: int = 0
    last: str = field(default="", init=False)

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or fewer at the end of the file."""
        pieces = []
        while size and (piece := self.file.read(min(size, _CHUNK))):
            pieces.append(piece)
            size -= len(piece)
            self.offset += len(piece)
        return b"".join(pieces)

    def read_content(self, name: str, size: int, *, is_wanted: bool) -> bytes:
        """Read the content of a member and the padding of its last block.

        Raises:
            TarDamageError: the file ends earlier.
        """
        begin, left, pieces = self.offset, size, []
        while left and (piece := self.read(min(left, _CHUNK))):
            left -= len(piece)
            if is_wanted:
                pieces.append(piece)
        if left:
            there = size - left
            what = f"the archive is truncated: it has {there:,} of {size:,} bytes of {name!r}"
            raise self.explain(begin, what)
        self.read(-size % _BLOCK)
        return b"".join(pieces)

    def explain(self, offset: int, what: str) -> TarDamageError:
        """Return an error that states the position of the damage."""
        after = f", after {self.last!r}" if self.last else ""
        return TarDamageError(f"byte {offset:,}{after}: {what}")


def list_members(file: BinaryIO, is_wanted: Callable[[str], bool]) -> Iterator[TarMember]:
    """Yield the members of an archive up to its last byte.

    Args:
        is_wanted: returns whether to read the content of a member of this name.

    Raises:
        TarDamageError: bytes are missing, or do not belong to a tar.
    """
    stream, extended, defaults = _TarStream(file), _ExtendedFields(), _ExtendedFields()
    while any(head := _read_head(stream)):
        offset = stream.offset - _BLOCK
        kind, size = head[156:157], _parse_number(head[124:136])
        if size is None or size < 0:
            raise stream.explain(offset, "a header without a size")
        if kind in _EXTENDED or kind in (_GLOBAL, _LONG_NAME, _LONG_LINK):
            target = defaults if kind == _GLOBAL else extended
            _read_extended(stream, offset, kind, size, target)
            continue
        name = extended.name or defaults.name or _parse_name(head)
        size = next(each for each in (extended.size, defaults.size, size) if each is not None)
        is_file, is_folder = _classify_kind(stream, offset, kind, name)
        # Headers of links and folders may state a size although no content follows.
        content = stream.read_content(name, size, is_wanted=is_wanted(name)) if is_file else b""
        yield TarMember(name, offset, is_file, is_folder, content)
        extended, stream.last = _ExtendedFields(), name
    if extended != _ExtendedFields():
        raise stream.explain(stream.offset - _BLOCK, "an extended header that no member follows")
    _check_end(stream)


def _classify_kind(stream: _TarStream, offset: int, kind: bytes, name: str) -> tuple[bool, bool]:
    if kind in _FILES:
        is_folder = name.endswith("/")  # the notation for folders before 1988
        return not is_folder, is_folder
    if kind in (_FOLDER, _LABEL) or kind in _NO_FILES:
        return False, kind in (_FOLDER, _LABEL)
    what = f"{name!r} has the unsupported type {kind.decode('latin-1')!r}"
    raise stream.explain(offset, f"{what}; pack only regular files, as `tar --format=ustar` does")


def _read_head(stream: _TarStream) -> bytes:
    """Read the next header, or the first block of the final zeros.

    Raises:
        TarDamageError: the block is neither a header nor zeros.
    """
    offset = stream.offset
    block = stream.read(_BLOCK)
    if not block and not offset:
        raise NoTarError("not a tar")
    if not offset and any(block) and not (len(block) == _BLOCK and _has_checksum(block)):
        raise NoTarError("not a tar, or its first bytes are damaged")
    if len(block) < _BLOCK:
        what = "the archive is truncated: it ends without the blocks of zeros that end a tar"
        raise stream.explain(offset, f"{what}; fetch or pack it again")
    if any(block) and not _has_checksum(block):
        what = "no header of a member: bytes are damaged, missing, or from another file"
        raise stream.explain(offset, f"{what}; fetch or pack it again")
    return block


def _has_checksum(block: bytes) -> bool:
    written = _parse_number(block[_CHECKSUM])
    others = block[: _CHECKSUM.start] + b" " * 8 + block[_CHECKSUM.stop :]
    signed = sum(byte - 256 if byte > 127 else byte for byte in others)  # noqa: PLR2004 - the sign bit of a byte
    return written in (sum(others), signed)  # some old programs added signed bytes


def _parse_number(text: bytes) -> int | None:
    if text[:1] and text[0] & _BASE_256:  # numbers too large for octal digits are binary
        first = text[0] & (_NEGATIVE - 1)
        value = int.from_bytes(bytes([first]) + text[1:])
        # The exact value does not matter, because callers reject negative numbers.
        return value if not text[0] & _NEGATIVE else -1
    digits = text.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _parse_name(head: bytes) -> str:
    name = _decode(head[:100].partition(b"\0")[0])
    # The GNU format stores times at the position where ustar stores the start of a long name.
    prefix = head[345:500].partition(b"\0")[0] if head[257:263] == b"ustar\0" else b""
    return f"{_decode(prefix)}/{name}" if prefix else name


def _decode(name: bytes) -> str:
    # Names in other encodings stay distinct and readable.
    return name.decode("utf-8", "backslashreplace")


def _read_extended(
    stream: _TarStream, offset: int, kind: bytes, size: int, target: _ExtendedFields
) -> None:
    if size > _MOST_HEADER_BYTES:
        raise stream.explain(offset, f"an extended header of {size:,} bytes")
    content = stream.read_content("an extended header", size, is_wanted=True)
    if kind == _LONG_NAME:
        target.name = _decode(content.partition(b"\0")[0])
    if kind in (_LONG_NAME, _LONG_LINK):
        return
    for name, value in _parse_records(stream, offset, content):
        if name.startswith("GNU.sparse."):
            raise stream.explain(offset, "a sparse file; pack it without `tar --sparse`")
        if name == "path":
            target.name = value
        elif name == "size":
            if not value.isdecimal():
                raise stream.explain(offset, f"an extended header with the size {value!r}")
            target.size = int(value)


def _parse_records(stream: _TarStream, offset: int, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the records of an extended header. A record is `LENGTH NAME=VALUE` and a line end."""
    while content.strip(b"\0"):
        length, space, _ = content.partition(b" ")
        end = int(length) if length.isdigit() and len(length) < 9 else 0  # noqa: PLR2004 - digits
        record = content[len(length) + 1 : end]
        name, equals, value = record[:-1].partition(b"=")
        if not (space and equals and record.endswith(b"\n")):
            raise stream.explain(offset, "an extended header that can't be read")
        yield _decode(name), _decode(value)
        content = content[end:]


def _check_end(stream: _TarStream) -> None:
    """Read the rest of the file, which must consist of zeros.

    Raises:
        TarDamageError: other bytes or too many zeros follow.
    """
    begin = stream.offset - _BLOCK
    while piece := stream.read(_BLOCK):
        if any(piece):
            offset = stream.offset - len(piece)
            if len(piece) == _BLOCK and _has_checksum(piece):
                what = (
                    f"a member after the archive's end at byte {begin:,}: a hole, or two archives"
                )
                raise stream.explain(offset, f"{what} in one file; split them into separate files")
            raise stream.explain(offset, f"bytes after the archive's end at byte {begin:,}")
    zeros = stream.offset - begin
    if zeros > _MOST_ZEROS:
        what = f"{zeros:,} bytes of zeros, more than a tar ends with: a hole"
        raise stream.explain(begin, f"{what}, or a wider record; pack it again if it is whole")
