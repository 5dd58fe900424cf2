"""The parts of a page's text: segments as a PDF library or OCR finds them, and lines in order."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from enum import IntEnum
from typing import NamedTuple


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
    """

    text: str
    left: float
    bottom: float
    right: float
    top: float
    order: int = 0

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
