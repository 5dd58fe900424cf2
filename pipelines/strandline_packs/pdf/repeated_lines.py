"""Removes headers and footers: lines at the edges of pages that neighboring pages repeat."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from strandline_packs.pdf.page_lines import PageLine

Page = TypeVar("Page")

REACH = 10  # neighboring pages on each side that are compared
_LEAST = 3  # pages with the same line
_EDGE = 0.15  # share of the page's height that counts as an edge
_LINES = 3  # lines at an edge that may be a header or footer
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")


class LinedPage(NamedTuple, Generic[Page]):
    """A page with its lines.

    Attributes:
        number: position in the document, from 1.
        content: everything else about the page.
    """

    number: int
    lines: Sequence[PageLine]
    content: Page


def remove_repeated(pages: Iterable[LinedPage[Page]]) -> Iterator[tuple[LinedPage[Page], int]]:
    """Yield pages without repeated lines at their edges, and the number of removed lines.

    Numbers count as equal, so page numbers are removed, too. A line is removed if at least three of
    the pages from `REACH` before to `REACH` after the page have that line. Memory holds only these
    pages.
    """
    window: deque[tuple[LinedPage[Page], dict[int, str]]] = deque()
    counts: Counter[str] = Counter()
    following = 0  # index in the window of the next page to yield
    for page in pages:
        edges = _find_edges(page.lines)
        window.append((page, edges))
        counts.update(set(edges.values()))
        if len(window) - following > REACH:
            yield _remove(window[following], counts)
            following += 1
        if following > REACH:
            counts.subtract(set(window.popleft()[1].values()))
            following -= 1
    while following < len(window):
        yield _remove(window[following], counts)
        following += 1
        if following > REACH:
            counts.subtract(set(window.popleft()[1].values()))
            following -= 1


def _remove(
    entry: tuple[LinedPage[Page], dict[int, str]], counts: Counter[str]
) -> tuple[LinedPage[Page], int]:
    page, edges = entry
    repeated = {at for at, key in edges.items() if counts[key] >= _LEAST}
    lines = [line for at, line in enumerate(page.lines) if at not in repeated]
    return page._replace(lines=lines), len(repeated)


def _find_edges(lines: Sequence[PageLine]) -> dict[int, str]:
    """Return the lines at the edges: a key that equal lines share, by index."""
    ranked = sorted(range(len(lines)), key=lambda at: lines[at].depth)
    top = [at for at in ranked[:_LINES] if lines[at].depth < _EDGE]
    bottom = [at for at in ranked[-_LINES:] if lines[at].depth > 1 - _EDGE]
    keyed = {at: f"top {_normalise(lines[at].text)}" for at in top}
    return keyed | {at: f"bottom {_normalise(lines[at].text)}" for at in bottom}


def _normalise(text: str) -> str:
    # Tables may differ only in their numbers.
    return text if text.startswith("| ") else _DIGITS.sub("#", text.lower())
