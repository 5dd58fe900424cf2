"""Markdown from plain data; text from outside stays text.

It must not know what a page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from strandline.cli.views.format import escape_text

CHARACTERS = 300  # most of one text; keys and messages may be of any length
# Characters with a meaning of their own: within a line, in a cell of a table, or as HTML.
_SPECIAL = re.compile(r"([\\`*_\[\]|~#<>&$]|:(?=//)|(?<=www)\.)")
_AT_START = re.compile(r"^(\s*)([-+=]|\d+(?=[)]))")


def escape(text: str) -> str:
    """Return text from outside as it is read, in one line."""
    if len(text) > CHARACTERS:
        text = f"{text[:CHARACTERS]}…"
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", escape_text(text)))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are text.

    Args:
        columns: their headings; one that begins with `#` is of numbers.
    """
    heads = [escape(column.removeprefix("#")) for column in columns]
    rules = ["---:" if column.startswith("#") else "---" for column in columns]
    lines = [heads, rules, *([escape(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def make_code(text: str, language: str) -> list[str]:
    """Return the lines of a block of code, whatever is in it."""
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]
