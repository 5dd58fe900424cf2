"""The tables in documents: each stands between two markers, and is written anew there."""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- {}: begin -->\n", "<!-- {}: end -->\n"


def write_table(document: Path, text: str, marker: str = "table") -> None:
    """Replace what stands between the document's two markers of a place.

    Raises:
        ValueError: it has no markers.
    """
    first, last = BEGIN.format(marker), END.format(marker)
    head, begin, rest = document.read_text().partition(first)
    _, end, tail = rest.partition(last)
    if not (begin and end):
        msg = f"{document.name} has no place for the table: {first.strip()} and {last.strip()}"
        raise ValueError(msg)
    document.write_text(f"{head}{begin}{text}{end}{tail}")
