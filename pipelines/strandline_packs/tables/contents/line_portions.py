"""Lines of several files as they are asked for: so many, or so many bytes.

It must not know what is in lines, nor where they come from.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from strandline.data.files.opening import UnreadableFileError

File = TypeVar("File")


class LinePortion(NamedTuple, Generic[File]):
    """Lines in a row of one file.

    Attributes:
        file: that they are of.
        number: of the first one, from 1.
        at: byte of the file where the first one begins.
        lines: without their ends; None for one that is too large.
        sizes: bytes of each, with its end.
    """

    file: File
    number: int
    at: int
    lines: list[bytes | None]
    sizes: list[int]


class LineQueue(Generic[File]):
    """Hands out lines in their order.

    Args:
        portions: all there are; may raise `UnreadableFileError`.

    Attributes:
        failure: why there are no more, where a file could not be read; what was read of it before
            is handed out first.
    """

    def __init__(self, portions: Iterator[LinePortion[File]]) -> None:
        self.failure: UnreadableFileError | None = None
        self._portions = portions
        self._next: LinePortion[File] | None = None

    def take(self, most: int, most_bytes: int) -> list[LinePortion[File]]:
        """Return the next lines; with the last one there are `most`, or at least `most_bytes`.

        Fewer are returned at the end alone, or before a failure.
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
