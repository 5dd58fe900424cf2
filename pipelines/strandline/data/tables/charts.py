"""Small charts as inline SVG, for self-contained pages.

Charts use the color of the surrounding text, so they are readable on any background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

# Sizes in pixels.
_WIDTH, _HEIGHT, _FOOT = 640, 160, 22
_MOST_BARS = 80
_ROW, _LABEL, _NUMBER = 24, 160, 90
_LETTERS = 22
_WHOLE = 1e15


def draw_histogram(title: str, bins: Sequence[Mapping[str, Any]]) -> str:
    """Return a histogram with vertical bars.

    Each bin has `low`, `high`, and `count`. A bound of None is an open end.
    """
    shown = _join_neighbours(bins)
    highest = max((each["count"] for each in shown), default=0) or 1
    width = _WIDTH / max(len(shown), 1)
    bars = [
        _draw_bar(
            f"{_format_range(each)}: {each['count']:,}",
            (at * width, _HEIGHT * (1 - each["count"] / highest)),
            # Separate bars by one pixel, unless the bars are only a pixel wide.
            (max(width - 1, 1), _HEIGHT * each["count"] / highest),
        )
        for at, each in enumerate(shown)
    ]
    foot = _HEIGHT + _FOOT - 6
    labels = []
    if shown:
        labels = [
            _draw_text(format_number(shown[0]["low"]), 0, foot, "start"),
            _draw_text(format_number(shown[-1]["high"]), _WIDTH, foot, "end"),
        ]
    return _frame(title, [*bars, *labels], _HEIGHT + _FOOT)


def draw_bars(title: str, numbers: Mapping[str, int]) -> str:
    """Return a chart with a horizontal bar and a number for each name."""
    highest = max(numbers.values(), default=0) or 1
    room = _WIDTH - _LABEL - _NUMBER
    parts = []
    for at, (name, number) in enumerate(numbers.items()):
        top, length = at * _ROW, room * number / highest
        parts += [
            _draw_text(_shorten(name), _LABEL - 8, top + 16, "end"),
            _draw_bar(f"{name}: {number:,}", (_LABEL, top + 3), (max(length, 1), _ROW - 6)),
            _draw_text(f"{number:,}", _LABEL + length + 8, top + 16, "start"),
        ]
    return _frame(title, parts, max(len(numbers), 1) * _ROW)


def format_number(number: float | None) -> str:
    """Format a number for readers. None represents an open end."""
    if number is None:
        return "…"
    return f"{number:,.0f}" if number == int(number) and abs(number) < _WHOLE else f"{number:.4g}"


def _join_neighbours(bins: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    # Round up, so that the number of bars stays within the limit. For an empty list, use 1.
    step = -(-len(bins) // _MOST_BARS) or 1
    groups = [bins[at : at + step] for at in range(0, len(bins), step)]
    return [
        {
            "low": group[0]["low"],
            "high": group[-1]["high"],
            "count": sum(each["count"] for each in group),
        }
        for group in groups
    ]


def _format_range(each: Mapping[str, Any]) -> str:
    low, high = format_number(each["low"]), format_number(each["high"])
    return low if low == high else f"{low} to {high}"


def _shorten(name: str) -> str:
    return name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"


def _draw_bar(tip: str, at: tuple[float, float], size: tuple[float, float]) -> str:
    return (
        f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" '
        f'fill="currentColor" fill-opacity="0.6"><title>{escape(tip)}</title></rect>'
    )


def _draw_text(text: str, x: float, y: float, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="13" '
        f'fill="currentColor">{escape(text)}</text>'
    )


def _frame(title: str, parts: Sequence[str], height: float) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="100%" style="max-width:{_WIDTH}px">{"".join(parts)}</svg></figure>'
    )
