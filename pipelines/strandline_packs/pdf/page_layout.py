"""Puts the segments of a page into reading order: columns, then lines, then paragraphs.

A page is divided at its gutters, recursively. A segment across a gutter, such as a title, divides
the page into bands above and below. The order of the page's content separates columns of prose from
rows of a table: a producer writes a column to its end, but a table row by row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from strandline_packs.pdf.page_lines import Break, LineSegment, PageLine, is_right_to_left
from strandline_packs.pdf.page_text import is_ideographic

_LEAST = 3  # segments on each side of a gutter
_SPANNING = 0.3  # maximum share of segments across a gutter
_GUTTER = 0.8  # minimum width of a gutter, in heights of a line
_SHARED = 0.5  # minimum share of the lower side's height that both sides of a gutter have
_PROSE = 10  # minimum width of a line of prose, in heights of a line
_FILLED = 0.6  # minimum share of the column's width that lines of prose fill
_SAME_LINE = 0.5  # minimum overlap of two segments of a line, as a share of the lower height
_LEADING = 1.35  # distance between paragraphs, in usual distances between lines
_OTHER_SIZE = 0.2  # difference of height between a heading and text
_FULL = 0.15  # maximum free share of the width at the end of a full line
_TALL = 2  # minimum height of a vertical line, in its widths
_DEEPEST = 12  # recursion limit
_BULLETS = ("•", "◦", "▪", "·", "–", "- ", "* ", "\uf0b7")

Line = Sequence[LineSegment]


def arrange_lines(segments: Sequence[LineSegment], height: float) -> list[PageLine]:
    """Return the lines of a page in reading order.

    Args:
        segments: all segments in the order of the content.
        height: height of the page, in the unit of the segments.
    """
    columns = [
        each
        for each in segments
        if each.height > _TALL * (each.right - each.left) and is_ideographic(each.text[0])
    ]
    if _count_characters(columns) > _count_characters(segments) / 2:
        # Turn vertical Chinese and Japanese, so that columns from the right become lines.
        return arrange_lines([_turn(each) for each in segments], max(s.right for s in segments))
    lines: list[PageLine] = []
    is_mirrored = is_right_to_left("".join(each.text for each in segments))
    for block in _divide(segments, _DEEPEST, is_mirrored=is_mirrored):
        lines += _break_lines(_group_lines(block), height)
    return lines


def _count_characters(segments: Sequence[LineSegment]) -> int:
    return sum(len(each.text) for each in segments)


def _turn(each: LineSegment) -> LineSegment:
    return each._replace(left=-each.top, bottom=each.left, right=-each.bottom, top=each.right)


def _divide(
    segments: Sequence[LineSegment], depth: int, *, is_mirrored: bool
) -> Iterator[Sequence[LineSegment]]:
    """Yield blocks without gutters in reading order."""
    gutter = _find_gutter(segments) if depth else None
    if gutter is None:
        if segments:
            yield segments
        return
    for band in _cut_bands(segments, gutter):
        sides = [
            [each for each in band if each.right <= gutter],
            [each for each in band if each.left < gutter < each.right],
            [each for each in band if each.left >= gutter],
        ]
        for side in reversed(sides) if is_mirrored else sides:
            yield from _divide(side, depth - 1, is_mirrored=is_mirrored)


def _cut_bands(segments: Sequence[LineSegment], gutter: float) -> Iterator[list[LineSegment]]:
    """Yield the segments from top to bottom, with and without segments across the gutter."""
    band: list[LineSegment] = []
    was_across: bool | None = None
    for each in sorted(segments, key=lambda segment: -segment.middle):
        is_across = each.left < gutter < each.right
        if band and is_across is not was_across:
            yield band
            band = []
        band.append(each)
        was_across = is_across
    yield band


def _find_gutter(segments: Sequence[LineSegment]) -> float | None:
    """Return the horizontal position of the best gutter, or None."""
    if len(segments) < 2 * _LEAST:
        return None
    lefts = sorted(each.left for each in segments)
    rights = sorted(each.right for each in segments)
    number, ranked = len(segments), []
    for at in sorted(set(rights)):
        left, right = bisect_right(rights, at), number - bisect_left(lefts, at)
        across = number - left - right
        if min(left, right) >= _LEAST and across <= _SPANNING * number:
            # Wide gutters win among gutters with the same sides.
            following = lefts[number - right]
            ranked.append((min(left, right) - 2 * across, following - at, (at + following) / 2))
    ranked.sort(reverse=True)
    # All candidates between the same columns are equivalent, so a few tries are enough.
    return next((at for _, _, at in ranked[:_DEEPEST] if _is_gutter(segments, at)), None)


def _is_gutter(segments: Sequence[LineSegment], at: float) -> bool:
    """Return True if a gutter separates columns, rather than the cells of a table."""
    left = [each for each in segments if each.right <= at]
    right = [each for each in segments if each.left >= at]
    if min(len(left), len(right)) < _LEAST:
        return False
    usual = median(each.height for each in (*left, *right))
    if min(each.left for each in right) - max(each.right for each in left) < _GUTTER * usual:
        return False
    if not _stand_side_by_side(left, right):
        return False
    sides = [
        is_left
        for _, is_left in sorted(
            [(each.order, True) for each in left] + [(each.order, False) for each in right]
        )
    ]
    switches = sum(before != after for before, after in pairwise(sides))
    is_table = switches >= min(len(left), len(right))
    return not is_table or (_is_prose(left, usual) and _is_prose(right, usual))


def _stand_side_by_side(left: Line, right: Line) -> bool:
    spans = [(min(s.bottom for s in side), max(s.top for s in side)) for side in (left, right)]
    shared = min(top for _, top in spans) - max(bottom for bottom, _ in spans)
    return shared >= _SHARED * min(top - bottom for bottom, top in spans)


def _is_prose(side: Line, usual: float) -> bool:
    width = max(each.right for each in side) - min(each.left for each in side)
    typical = median(each.right - each.left for each in side)
    return typical >= max(_PROSE * usual, _FILLED * width)


def _group_lines(block: Sequence[LineSegment]) -> list[list[LineSegment]]:
    """Return the lines of a block from top to bottom; segments of a line in reading order."""
    lines: list[list[LineSegment]] = []
    for each in sorted(block, key=lambda segment: (-segment.middle, segment.order)):
        first = lines[-1][0] if lines else None
        if first is not None and not (first.is_table or each.is_table):
            shared = min(first.top, each.top) - max(first.bottom, each.bottom)
            if shared >= _SAME_LINE * min(first.height, each.height):
                lines[-1].append(each)
                continue
        lines.append([each])
    for line in lines:
        is_mirrored = is_right_to_left("".join(each.text for each in line))
        line.sort(key=lambda segment: -segment.right if is_mirrored else segment.left)
    return lines


def _break_lines(lines: list[list[LineSegment]], height: float) -> Iterator[PageLine]:
    """Yield the lines of a block with their breaks."""
    bounds = [_bound(line) for line in lines]
    left, right = min(each.left for each in bounds), max(each.right for each in bounds)
    gaps = [above.middle - below.middle for above, below in pairwise(bounds)]
    leading = median(gaps) if gaps else 0.0
    for at, line in enumerate(bounds):
        if at == 0:
            start = Break.COLUMN
        elif line.is_table or bounds[at - 1].is_table:
            start = Break.PARAGRAPH
        else:
            start = _find_break(bounds[at - 1], line, leading, (left, right))
        # A row of a table has several segments, and ends before the next line.
        if start is Break.FLOW and max(len(lines[at - 1]), len(lines[at])) > 1:
            start = Break.LINE
        yield PageLine(line.text, start, 1 - line.middle / height if height else 0.0)


def _bound(line: Line) -> LineSegment:
    return LineSegment(
        " ".join(each.text for each in line),
        min(each.left for each in line),
        min(each.bottom for each in line),
        max(each.right for each in line),
        max(each.top for each in line),
        is_table=line[0].is_table,
    )


def _find_break(
    before: LineSegment, line: LineSegment, leading: float, sides: tuple[float, float]
) -> Break:
    left, right = sides
    usual = max(before.height, line.height)
    is_far = before.middle - line.middle > _LEADING * leading
    if is_far or abs(before.height - line.height) > _OTHER_SIZE * usual:
        return Break.PARAGRAPH
    is_mirrored = is_right_to_left(line.text)
    free = before.left - left if is_mirrored else right - before.right
    indent = right - line.right if is_mirrored else line.left - left
    outdent = right - before.right if is_mirrored else before.left - left
    is_item = line.text.startswith(_BULLETS) or indent - outdent > usual
    return Break.LINE if is_item or free > _FULL * (right - left) else Break.FLOW
