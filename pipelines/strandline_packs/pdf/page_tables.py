"""Finds ruled tables with pdfplumber, and writes them as Markdown.

pdfplumber finds the cells. Their text comes from PDFium, so that it gets the same repairs as the
rest of the page.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from strandline.plan.packages import load_module
from strandline_packs.pdf.page_layout import arrange_lines
from strandline_packs.pdf.page_lines import (
    Box,
    Break,
    LineSegment,
    PageLine,
    Word,
    is_right_to_left,
    join_segments,
    unite_boxes,
)
from strandline_packs.pdf.page_text import join_lines

_FILLED = 0.3  # minimum share of cells with text; the grid of a chart has fewer
_LEAST = 2  # horizontal rules of a table with open sides
_TOLERANCE = 3  # points within which rules meet, as in pdfplumber
# Lines of all cells, of two cells, and of a cell that indicate rows without rules between them.
_EVEN_LINES, _MANY_LINES, _MOST_LINES = 3, 6, 20

Edge = dict[str, Any]  # a horizontal or vertical rule, as in pdfplumber
Cell = Sequence[PageLine]
Grid = Sequence[Sequence[Box | None]]  # rows of cells; None: part of another cell


def find_grids(content: bytes) -> list[Grid]:
    """Return the ruled tables of the first page of a PDF file, with boxes as displayed.

    Raises:
        Exception: pdfplumber can't parse the page.
    """
    with load_module("pdfplumber").open(io.BytesIO(content)) as file:
        page = file.pages[0]
        finder = page.debug_tablefinder()
        if lines := [line for edges in _join_edges(finder) for line in _close_sides(edges)]:
            settings = {"explicit_vertical_lines": lines, "explicit_horizontal_lines": lines}
            finder = page.debug_tablefinder(settings)
        return [
            [[cell and _move(cell, page.bbox) for cell in row.cells] for row in table.rows]
            for table in finder.tables
        ]


def _move(cell: Box, page: Box) -> Box:
    """Return a box with the origin at the lower left, which pdfplumber has at the upper left."""
    return cell[0] - page[0], page[3] - cell[3], cell[2] - page[0], page[3] - cell[1]


def _join_edges(finder: Any) -> list[list[Edge]]:
    """Return groups of horizontal and vertical rules that touch each other."""
    groups: dict[int, dict[int, Edge]] = {}  # by the identity of the rule
    for crossing in finder.intersections.values():
        edges = {id(edge): edge for edge in (*crossing["v"], *crossing["h"])}
        found = [groups.get(key, {key: edge}) for key, edge in edges.items()]
        if any(group is not found[0] for group in found):
            joined = {key: edge for group in found for key, edge in group.items()}
            groups |= dict.fromkeys(joined, joined)
    return [list(group.values()) for group in {id(each): each for each in groups.values()}.values()]


def _close_sides(edges: Sequence[Edge]) -> Iterator[Edge]:
    """Yield the missing rule at each side where the rules of a table end in the open."""
    if sum(edge["orientation"] == "h" for edge in edges) < _LEAST:
        return  # a rule below the header: the rows below it would become one row
    whole: Edge = {key: min(edge[key] for edge in edges) for key in ("x0", "top")}
    whole |= {key: max(edge[key] for edge in edges) for key in ("x1", "bottom")}
    for low, high, along in (("x0", "x1", "h"), ("top", "bottom", "v")):
        for at, key in ((whole[low], low), (whole[high], high)):
            if {e["orientation"] for e in edges if abs(e[key] - at) <= _TOLERANCE} == {along}:
                line = whole | {low: at, high: at, "object_type": "line"}
                line["width"], line["height"] = (
                    line["x1"] - line["x0"],
                    line["bottom"] - line["top"],
                )
                yield line


def cut_tables(
    words: Sequence[Word], grids: Sequence[Grid]
) -> tuple[list[LineSegment], list[Word]]:
    """Return the tables of a page in Markdown, and the words outside of tables.

    Args:
        words: all words in the order of the content.
        grids: grids that are no table, such as charts and frames, are left out.
    """
    tables, remaining = [], list(words)
    for grid in grids:
        indexes = [[_find_words(remaining, cell) for cell in row] for row in grid]
        lines = [[_read_lines([remaining[at] for at in cell]) for cell in row] for row in indexes]
        if _is_table(lines, grid):
            found = [at for row in indexes for cell in row for at in cell]
            bounds = reduce(unite_boxes, (cell for row in grid for cell in row))
            assert bounds is not None
            tables.append(LineSegment(_write_table(lines), *bounds, min(found), is_table=True))
            for at in found:
                remaining[at] = ("", None)  # ends a segment
    return tables, remaining


def _find_words(words: Sequence[Word], cell: Box | None) -> list[int]:
    """Return the indexes of the words whose middle is in the cell."""
    if cell is None:
        return []
    left, bottom, right, top = (2 * edge for edge in cell)
    return [
        at
        for at, (_, box) in enumerate(words)
        if box and left < box[0] + box[2] <= right and bottom < box[1] + box[3] <= top
    ]


def _read_lines(words: Sequence[Word]) -> list[PageLine]:
    """Return the lines of a cell as one paragraph: lines end because the cell is narrow."""
    lines = arrange_lines(list(join_segments(words)), 1.0)
    return [line._replace(start=Break.FLOW) for line in lines]


def _is_table(lines: Sequence[Sequence[Cell]], grid: Grid) -> bool:
    filled = list(filter(None, ([len(cell) for cell in row if cell] for row in lines)))
    columns = sum(any(column) for column in zip(*lines, strict=True))
    size = sum(cell is not None for row in grid for cell in row)
    is_filled = sum(map(len, filled)) >= _FILLED * size
    return min(len(filled), columns) > 1 and is_filled and not any(map(_has_several_rows, filled))


def _has_several_rows(numbers: Sequence[int]) -> bool:
    """Return True if a row probably is several rows without rules, from its numbers of lines."""
    *_, second, most = sorted((0, *numbers))
    is_even = second == most == min(numbers) >= _EVEN_LINES
    return is_even or second >= _MANY_LINES or most > _MOST_LINES


def _write_table(lines: Sequence[Sequence[Cell]]) -> str:
    """Return the rows and columns with text in Markdown."""
    texts = [[join_lines(cell).replace("|", r"\|") for cell in row] for row in lines if any(row)]
    used = [at for at, column in enumerate(zip(*texts, strict=True)) if any(column)]
    if is_right_to_left("".join(map("".join, texts))):
        used.reverse()
    rows = [f"| {' | '.join(row[at] for at in used)} |" for row in texts]
    return "\n".join([rows[0], f"|{' --- |' * len(used)}", *rows[1:]])
