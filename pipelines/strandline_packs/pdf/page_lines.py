"""The parts of a page's text: segments as a PDF library or OCR finds them, and lines in order."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

_WIDE_GAP = 1.5  # distance of words in two segments, in heights of a line

Box = tuple[float, float, float, float]  # left, bottom, right, top
Word = tuple[str, Box | None]


class Break(IntEnum):
    """How a line relates to the previous line of the page."""

    FLOW = 0  # continues the paragraph
    LINE = 1  # starts on a line of its own, such as an item of a list or a row of a table
    PARAGRAPH = 2  # starts a paragraph after a gap
    COLUMN = 3  # starts a column or another block, which may continue the paragraph


class LineSegment(NamedTuple):
    """Words on one baseline without a wide gap.

    Attributes:
        text: characters in logical order, also for right-to-left scripts.
        left, bottom, right, top: bounds in any unit; the origin is at the lower left.
        order: position in the page's content.
        is_table: True for a whole table in Markdown.
    """

    text: str
    left: float
    bottom: float
    right: float
    top: float
    order: int = 0
    is_table: bool = False

    @property
    def height(self) -> float:
        """The height of the characters, above 0."""
        return max(self.top - self.bottom, 1e-3)

    @property
    def middle(self) -> float:
        """The vertical position of the characters."""
        return (self.top + self.bottom) / 2


class PageLine(NamedTuple):
    """A line of text in reading order.

    Attributes:
        depth: vertical position, as a share of the page's height from the top.
    """

    text: str
    start: Break
    depth: float


_MIRRORED = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff]")


def is_right_to_left(text: str) -> bool:
    """Return True if most letters of the text belong to right-to-left scripts."""
    if not _MIRRORED.search(text):
        return False  # most texts
    kinds = Counter(map(unicodedata.bidirectional, text))
    return kinds["R"] + kinds["AL"] > kinds["L"]


def join_segments(words: Iterable[Word]) -> Iterator[LineSegment]:
    """Yield segments: words of a line without a wide gap between them.

    A word without text ends a segment.
    """
    texts: list[str] = []
    bounds: Box | None = None
    order = 0
    for at, (word, box) in enumerate((*words, ("", None))):
        is_next = bool(word) and bounds is not None and (box is None or _is_next(bounds, box))
        if texts and not is_next:
            yield LineSegment(" ".join(texts), *(bounds or (0.0, 0.0, 0.0, 0.0)), order)
            texts, bounds = [], None
        if word:
            order = order if texts else at
            texts.append(word)
            bounds = unite_boxes(bounds, box)


def _is_next(bounds: Box, box: Box) -> bool:
    height = max(min(bounds[3] - bounds[1], box[3] - box[1]), 1e-3)
    shared = min(bounds[3], box[3]) - max(bounds[1], box[1])
    gap = max(box[0] - bounds[2], bounds[0] - box[2])
    return shared >= height / 2 and gap <= _WIDE_GAP * height


def unite_boxes(bounds: Box | None, box: Box | None) -> Box | None:
    """Return the smallest box that contains both."""
    if bounds is None or box is None:
        return bounds or box
    return (
        min(bounds[0], box[0]),
        min(bounds[1], box[1]),
        max(bounds[2], box[2]),
        max(bounds[3], box[3]),
    )
