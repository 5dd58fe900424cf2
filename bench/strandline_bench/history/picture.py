"""Draws the SVG pictures of docs/benchmarks.md: times of commands, and ratios over commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain

from strandline_bench.history.record import Entry

# Prefix of the rows that compare whole commands. The first picture draws these rows as bars.
BARS = "a filter of words, 1,000,000"
# Rows that the second picture draws as lines over the commits, and their labels.
LINES = {
    "FineWeb's recipe, 100,000 pages, whole: times as fast": "FineWeb's recipe, × datatrove's rate",
    "the four in a row, words by rules: times as fast": "filters of text, × datatrove's rate",
    "ours, chained, as a multiple of bare actors": "a task in a chain, × bare actors' time",
    "ledger's cost, 1 busy at 1 ms tasks, inline: of the run": "the ledger, % of 1 ms tasks",
}
_WIDTH, _LABEL, _ROW, _BAR, _CHART = 760, 250, 24, 14, 90
_OURS, _OTHERS, _INK = "#0b6e99", "#b8c4cc", "#333"
_FONT = "font-family='sans-serif' font-size='12'"


def draw_bars(title: str, seconds: Mapping[str, float]) -> str:
    """Draw a bar per command, fastest first, and highlight Strandline's.

    Args:
        seconds: seconds by the name of a command.
    """
    longest = max(seconds.values())
    parts = [_write(8, 18, title, weight="bold")]
    for row, (name, taken) in enumerate(sorted(seconds.items(), key=lambda each: each[1])):
        top, width = 30 + row * _ROW, (_WIDTH - _LABEL - 70) * taken / longest
        colour = _OURS if name.startswith("ours") else _OTHERS
        parts += [
            _write(8, top + 12, name),
            f"<rect x='{_LABEL}' y='{top}' width='{width:.1f}' height='{_BAR}' fill='{colour}'/>",
            _write(_LABEL + width + 6, top + 12, f"{taken:g} s"),
        ]
    return _frame(parts, 36 + len(seconds) * _ROW)


def draw_history(entries: Sequence[Entry]) -> str:
    """Draw a line over the commits for each of `LINES`, with equal distances between commits."""
    charts = [
        _draw_line(row, label, [(entry, entry.ratios.get(what)) for entry in entries])
        for row, (what, label) in enumerate(LINES.items())
    ]
    return _frame(chain.from_iterable(charts), len(LINES) * _CHART + 8)


def _draw_line(row: int, label: str, values: list[tuple[Entry, float | None]]) -> Iterator[str]:
    known = [(at, entry, value) for at, (entry, value) in enumerate(values) if value is not None]
    top = row * _CHART
    yield _write(8, top + 18, label, weight="bold")
    if not known:
        yield _write(8, top + 40, "not measured yet")
        return
    step = (_WIDTH - 120) / max(1, len(values) - 1)
    most = max(value for *_, value in known) or 1.0
    points = [(20 + at * step, top + 72 - 40 * value / most) for at, _, value in known]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f"<polyline points='{path}' fill='none' stroke='{_OURS}' stroke-width='2'/>"
    for (x, y), (_, entry, value) in zip(points, known, strict=True):
        hint = escape(f"{entry.day}, {entry.commit}: {value:g}")
        centre = f"cx='{x:.1f}' cy='{y:.1f}'"
        yield f"<circle {centre} r='3' fill='{_OURS}'><title>{hint}</title></circle>"
    yield _write(points[-1][0] + 8, points[-1][1] + 4, f"{known[-1][2]:g}")


def _write(x: float, y: float, text: str, weight: str = "normal") -> str:
    corner = f"x='{x:.1f}' y='{y:.1f}' fill='{_INK}' font-weight='{weight}'"
    return f"<text {corner}>{escape(text)}</text>"


def _frame(parts: Iterator[str] | Sequence[str], height: int) -> str:
    size = f"viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'"
    ground = f"<rect width='{_WIDTH}' height='{height}' fill='#fff'/>"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {_FONT}>"
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"
