"""Rewrites the tables of documents. Each table is between two markers."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"


def write_table(document: Path, text: str, marker: str = "table") -> None:
    """Replace the text between the two markers of a table in a document.

    Raises:
        ValueError: if the markers are missing.
    """
    first, last = BEGIN.format(marker), END.format(marker)
    head, begin, rest = document.read_text().partition(first)
    _, end, tail = rest.partition(last)
    if not (begin and end):
        msg = f"{document.name} has no place for the table: {first.strip()} and {last.strip()}"
        raise ValueError(msg)
    document.write_text(f"{head}{begin}{text}{end}{tail}")
