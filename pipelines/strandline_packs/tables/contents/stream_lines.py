"""Reads the lines that start in a byte range of a stream, with a size limit.

Larger lines are skipped without loading them, and reported by their offset. The module must not
depend on the content of lines.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import BinaryIO, NamedTuple, cast

_PIECE = 1 << 20
_END = b"\n"


class StreamLine(NamedTuple):
    """A line of a stream.

    Attributes:
        at: byte offset in the stream.
        size: size in bytes, including the line end.
        content: the bytes; None for a line above the size limit.
    """

    at: int
    size: int
    content: bytes | None


def list_lines(
    stream: BinaryIO, most_bytes: int, start: int = 0, stop: int | None = None
) -> Iterator[StreamLine]:
    """Yield the lines that start in a range. Adjacent ranges yield each line exactly once.

    Args:
        stream: positioned at its start; seekable unless `start` is 0.
        most_bytes: size limit of lines with content.
        start, stop: byte offsets; None for the end of the stream.
    """
    lines = cast("BinaryIO", _buffer(stream))
    at = start
    if start:
        # A line starts at `start` if the previous line ends right before.
        lines.seek(start - 1)
        at += _skip(lines) - 1
    while stop is None or at < stop:
        # Read a byte beyond the limit, to detect a line that is too long.
        content = lines.readline(most_bytes + 1)
        if not content:
            return
        size = len(content)
        is_whole = size <= most_bytes
        if not is_whole and not content.endswith(_END):
            size += _skip(lines)
        yield StreamLine(at, size, content if is_whole else None)
        at += size


class LineBlock(NamedTuple):
    """Consecutive lines of one read.

    Attributes:
        at: byte offset of the first line.
        lines: lines without line ends; None for a line above the size limit.
        sizes: size of each line with its end, in bytes.
    """

    at: int
    lines: list[bytes | None]
    sizes: list[int]


def list_blocks(
    stream: BinaryIO, most_bytes: int, start: int = 0, stop: int | None = None
) -> Iterator[LineBlock]:
    """Yield the same lines as `list_lines`, many at a time."""
    source = cast("BinaryIO", _buffer(stream))
    at = start
    if start:
        source.seek(start - 1)
        at += _skip(source) - 1
    begun: list[bytes] = []  # a line with an end that was not read yet
    size = 0  # size of that line, including dropped bytes
    while stop is None or at < stop:
        piece = source.read(_PIECE)
        if piece and _END not in piece:
            begun.append(piece)
            size += len(piece)
            # Drop the content of a line above the limit; `size` still counts the bytes.
            if size > most_bytes:
                begun.clear()
            continue
        gone = size - sum(map(len, begun))
        whole = b"".join([*begun, piece]).split(_END)
        rest = whole.pop()
        if not piece:
            # The remaining bytes are a last line without a line end, or are empty.
            if size:
                yield LineBlock(at, [rest if size <= most_bytes else None], [size])
            return
        sizes = [size + 1 for size in map(len, whole)]
        sizes[0] += gone
        lines: list[bytes | None] = [*whole]
        if max(sizes) > most_bytes:
            bounded = zip(lines, sizes, strict=True)
            lines = [line if size <= most_bytes else None for line, size in bounded]
        ends = list(accumulate(sizes, initial=at))
        count = len(lines) if stop is None else min(len(lines), bisect_left(ends, stop))
        yield LineBlock(at, lines[:count], sizes[:count])
        at = ends[-1]
        begun, size = [rest], len(rest)


def _skip(lines: BinaryIO) -> int:
    """Skip the rest of a line, and return the number of skipped bytes."""
    size = 0
    while piece := lines.readline(_PIECE):
        size += len(piece)
        if piece.endswith(_END):
            break
    return size


def _buffer(stream: BinaryIO) -> io.IOBase:
    """Return a stream whose `readline` accepts a limit, which a store's stream may not support."""
    known = (io.BufferedIOBase, io.BytesIO)
    return stream if isinstance(stream, known) else io.BufferedReader(stream, _PIECE)  # type: ignore[type-var]
