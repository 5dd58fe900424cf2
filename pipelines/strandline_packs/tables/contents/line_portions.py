"""Queues lines from several files. Callers take a limited number of lines or bytes.

The module must not depend on the content or the origin of lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from strandline.data.files.opening import UnreadableFileError

File = TypeVar("File")


class LinePortion(NamedTuple, Generic[File]):
    """Consecutive lines of one file.

    Attributes:
        file: file of the lines.
        number: number of the first line, from 1.
        at: byte offset of the first line.
        lines: lines without line ends; None for a line above the size limit.
        sizes: size of each line with its end, in bytes.
    """

    file: File
    number: int
    at: int
    lines: list[bytes | None]
    sizes: list[int]


class LineQueue(Generic[File]):
    """Emits lines in order.

    Args:
        portions: all portions; iterating may raise `UnreadableFileError`.

    Attributes:
        failure: error that ended the lines early; earlier lines are emitted first.
    """

    def __init__(self, portions: Iterator[LinePortion[File]]) -> None:
        self.failure: UnreadableFileError | None = None
        self._portions = portions
        self._next: LinePortion[File] | None = None

    def take(self, most: int, most_bytes: int) -> list[LinePortion[File]]:
        """Return the next lines, up to `most` lines or the line that reaches `most_bytes`.

        Fewer lines are returned only at the end, or before a failure.
        """
        taken = []
        while most > 0 and most_bytes > 0 and (portion := self._pull()) is not None:
            totals = list(accumulate(portion.sizes[:most]))
            count = min(len(totals), bisect_left(totals, most_bytes) + 1)
            head, self._next = _cut(portion, count, totals[count - 1])
            taken.append(head)
            most -= count
            most_bytes -= totals[count - 1]
        return taken

    def _pull(self) -> LinePortion[File] | None:
        while self._next is None and self.failure is None:
            try:
                portion = next(self._portions, None)
            except UnreadableFileError as error:
                self.failure = error
                return None
            if portion is None:
                return None
            if portion.lines:
                self._next = portion
        return self._next


def _cut(
    portion: LinePortion[File], count: int, size: int
) -> tuple[LinePortion[File], LinePortion[File] | None]:
    if count == len(portion.lines):
        return portion, None
    file, number, at, lines, sizes = portion
    rest = LinePortion(file, number + count, at + size, lines[count:], sizes[count:])
    return LinePortion(file, number, at, lines[:count], sizes[:count]), rest
