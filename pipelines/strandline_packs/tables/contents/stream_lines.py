"""Lines of a stream that begin in a range of its bytes, none of them larger than a bound.

A line that is larger is passed over, and told by where it begins; it is never in memory. It must
not know what is written in lines.
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
    """A line with its end.

    Attributes:
        at: byte of the stream where it begins.
        size: bytes.
        content: None where it is larger than the bound.
    """

    at: int
    size: int
    content: bytes | None


def list_lines(
    stream: BinaryIO, most_bytes: int, start: int = 0, stop: int | None = None
) -> Iterator[StreamLine]:
    """Yield the lines that begin in a range, so that ranges side by side have each line once.

    Args:
        stream: at its beginning; seekable where `start` is not 0.
        most_bytes: of a line that is yielded with its content.
        start, stop: bytes; None: to the end.
    """
    lines = cast("BinaryIO", _buffer(stream))
    at = start
    if start:
        # A line begins at `start` where another ends right before it.
        lines.seek(start - 1)
        at += _skip(lines) - 1
    while stop is None or at < stop:
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
    """Lines in a row, as many as were read at once.

    Attributes:
        at: byte of the stream where the first one begins.
        lines: without their ends; None for one that is larger than the bound.
        sizes: bytes of each, with its end.
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
    size = 0  # bytes of that line, gone ones too
    while stop is None or at < stop:
        piece = source.read(_PIECE)
        if piece and _END not in piece:
            begun.append(piece)
            size += len(piece)
            if size > most_bytes:
                begun.clear()
            continue
        gone = size - sum(map(len, begun))
        lines: list[bytes | None] = [*b"".join([*begun, piece]).split(_END)]
        rest = lines.pop() or b""
        if not piece:
            # A last line without an end is left, or nothing.
            if size:
                yield LineBlock(at, [rest if size <= most_bytes else None], [size])
            return
        sizes = [len(line or b"") + 1 for line in lines]
        sizes[0] += gone
        if max(sizes) > most_bytes:
            bounded = zip(lines, sizes, strict=True)
            lines = [line if size <= most_bytes else None for line, size in bounded]
        ends = list(accumulate(sizes, initial=at))
        count = len(lines) if stop is None else min(len(lines), bisect_left(ends, stop))
        yield LineBlock(at, lines[:count], sizes[:count])
        at = ends[-1]
        begun, size = [rest], len(rest)


def _skip(lines: BinaryIO) -> int:
    """Read on behind the end of the line, or to the end; how many bytes that were."""
    size = 0
    while piece := lines.readline(_PIECE):
        size += len(piece)
        if piece.endswith(_END):
            break
    return size


def _buffer(stream: BinaryIO) -> io.IOBase:
    """Return a stream with a `readline` that takes a bound; a store's stream may have another."""
    known = (io.BufferedIOBase, io.BytesIO)
    return stream if isinstance(stream, known) else io.BufferedReader(stream, _PIECE)  # type: ignore[type-var]
