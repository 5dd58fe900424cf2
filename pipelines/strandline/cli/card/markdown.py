"""Renders plain data as Markdown, and escapes all text that comes from users or data.

The module must not depend on the content of pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from strandline.cli.views.format import escape_text

CHARACTERS = 300  # limit for a text, because keys and messages may have any length
# Characters with a special meaning within a line, in a table cell, or in HTML. The colon of
# `https://` and the dot of `www.` also match, because GitHub turns bare addresses into links.
_SPECIAL = re.compile(r"([\\`*_\[\]|~#<>&$]|:(?=//)|(?<=www)\.)")
# Matches list markers like `- a`, `+ a`, and `1) a`, and underlines of headings like `===`.
_AT_START = re.compile(r"^(\s*)([-+=]|\d+(?=[)]))")


def escape(text: str) -> str:
    """Return text from users or data as one line that Markdown shows literally."""
    if len(text) > CHARACTERS:
        text = f"{text[:CHARACTERS]}…"
    return _AT_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", escape_text(text)))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are text.

    Args:
        columns: headings; a heading that begins with `#` marks a column of numbers.
    """
    heads = [escape(column.removeprefix("#")) for column in columns]
    rules = ["---:" if column.startswith("#") else "---" for column in columns]
    lines = [heads, rules, *([escape(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def make_code(text: str, language: str) -> list[str]:
    """Return the lines of a code block with any content."""
    # A fence must be longer than every run of backticks in the content.
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]
