"""Charts as inline SVG, from plain data.

Charts fill the available width: horizontal positions are percentages, and text keeps its size. The
style sheet sets the colours, and the title of each chart describes its content in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from strandline.cli.report.axes import TimeAxis, ceil_nice
from strandline.cli.report.markup import element, join
from strandline.cli.views.format import format_count

# Heights in pixels.
_ROW, _BAR, _TICK_ROW = 30, 9, 20
_PLOT, _HEAD = 84, 16
_LEAST = 0.004  # minimum share of the width, so that a bar is visible


class Bar(NamedTuple):
    """A horizontal bar; positions are shares of the width, from 0 to 1.

    Attributes:
        label: text next to the bar.
        kind: class in the style sheet.
        hint: complete description, shown on hover.
    """

    begin: float
    end: float
    label: str
    kind: str
    hint: str


class Part(NamedTuple):
    """A part of a whole, for `draw_parts`."""

    label: str
    number: int
    kind: str


class RateStep(NamedTuple):
    """A constant rate between two positions on the horizontal axis."""

    begin: float
    end: float
    rate: float


def draw_timeline(title: str, bars: Sequence[Bar], axis: TimeAxis) -> Markup:
    """Return a chart with one row per bar over a time axis."""
    height = _ROW * len(bars)
    rows = [_draw_bar(bar, _ROW * row) for row, bar in enumerate(bars)]
    gaps = [
        element(
            "rect", x=_percent(left), y=0, width=_percent(right - left), height=height, class_="gap"
        )
        for left, right in axis.breaks
    ]
    return _frame(title, height + _TICK_ROW, *gaps, *rows, *_draw_times(axis, height))


def draw_parts(title: str, parts: Sequence[Part]) -> Markup:
    """Return a chart of adjacent parts of a whole, each wide enough to be visible."""
    whole = sum(part.number for part in parts)
    at, pieces = 0.0, []
    for part in parts:
        if part.number:
            width = part.number / whole
            hint = element("title", f"{part.label}: {format_count(part.number)}")
            shown = max(width, _LEAST)
            pieces.append(
                element(
                    "rect",
                    hint,
                    # A small part at the right end is drawn wider, and must stay within the chart.
                    x=_percent(min(at, 1 - shown)),
                    y=0,
                    width=_percent(shown),
                    height=22,
                    class_=part.kind,
                )
            )
            at += width
    empty = element("rect", x=0, y=0, width="100%", height=22, class_="empty")
    return _frame(title, 22, empty, *pieces)


def draw_rate(title: str, steps: Sequence[Sequence[RateStep]], axis: TimeAxis, unit: str) -> Markup:
    """Return a chart of a rate over time, with an area for each uninterrupted period."""
    highest = max((step.rate for stretch in steps for step in stretch), default=0.0)
    top = ceil_nice(highest)
    lines = [
        element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid")
        for y in (_HEAD, _HEAD + _PLOT / 2, _HEAD + _PLOT)
    ]
    labels = [
        element("text", f"{top * share:,g}{unit}", x=0, y=_HEAD + _PLOT * (1 - share) - 4)
        for share in (1, 0.5)
    ]
    # Join as markup, because plain text on the page has a length limit.
    path = Markup("").join(_render_area(stretch, top) for stretch in steps)
    plot = element(
        "svg",
        element("path", d=path, class_="area") if path else None,
        x=0,
        y=_HEAD,
        width="100%",
        height=_PLOT,
        # Paths can't use percentages, so the path has its own units and is stretched to the width.
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
    )
    bottom = _HEAD + _PLOT
    return _frame(title, bottom + _TICK_ROW, *lines, plot, *labels, *_draw_times(axis, bottom))


def draw_share(share: float, title: str) -> Markup:
    """Return a bar for a table cell, as long as the value's share of the largest value."""
    bar = element(
        "rect", x=0, y=1, width=_percent(min(1.0, max(0.0, share))), height=8, class_="share"
    )
    return _frame(title, 10, bar)


def _frame(title: str, height: float, *pieces: Markup) -> Markup:
    heading = element("title", title)
    return element(
        "svg",
        heading,
        *pieces,
        role="img",
        width="100%",
        height=f"{height:g}",
        class_="chart",
        aria_label=title,
    )


def _draw_bar(bar: Bar, y: float) -> Markup:
    width = max(bar.end - bar.begin, _LEAST)
    begin = min(bar.begin, 1 - width)
    # In the right half, labels end at the bar's end so that they stay within the chart.
    is_left = begin < 0.5  # noqa: PLR2004 - the middle
    label = element(
        "text",
        bar.label,
        y=y + 14,
        x=_percent(begin if is_left else begin + width),
        text_anchor="start" if is_left else "end",
    )
    rect = element(
        "rect",
        element("title", bar.hint),
        x=_percent(begin),
        y=y + 18,
        width=_percent(width),
        height=_BAR,
        rx=2,
        class_=bar.kind,
    )
    return join(label, rect)


def _draw_times(axis: TimeAxis, y: float) -> Iterator[Markup]:
    ticks = axis.list_ticks()
    for number, (position, label) in enumerate(ticks):
        anchor = "start" if not number else "end" if number == len(ticks) - 1 else "middle"
        yield element(
            "text", label, x=_percent(position), y=y + 15, text_anchor=anchor, class_="tick"
        )


def _render_area(steps: Iterable[RateStep], top: float) -> str:
    words: list[str] = []
    end = 0.0
    for step in steps:
        y = 100 * (1 - step.rate / top)
        if not words:
            words.append(f"M{1000 * step.begin:.1f} 100")
        words.append(f"V{y:.1f}H{1000 * step.end:.1f}")
        end = step.end
    return "".join([*words, f"V100H{1000 * end:.1f}Z"]) if words else ""


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
