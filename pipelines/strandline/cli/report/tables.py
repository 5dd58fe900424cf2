"""What sections are made of: headings, tables, lists that say what they leave out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strandline.cli.report.markup import Child, Markup, element, join
from strandline.cli.views.format import format_count, format_seconds, format_time

_HOUR = 3600
_DIGITS = ((100, 0), (10, 1), (0.1, 2))
Cell = Child | tuple[Child, str]


def make_section(anchor: str, heading: str, *content: Child) -> Markup:
    """Return a section that the page's navigation leads to."""
    name = f"{anchor}-heading"
    return element(
        "section", element("h2", heading, id=name), *content, id=anchor, aria_labelledby=name
    )


def make_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Markup:
    """Return a table in a region of its own, which scrolls where there is no room for all columns.

    Args:
        caption: what it lists.
        columns: their headings; one that begins with `#` is of numbers.
        rows: of cells; the first is the row's heading.
    """
    kinds = ["number" if column.startswith("#") else None for column in columns]
    heads = [
        element("th", column.removeprefix("#"), scope="col", class_=kind)
        for column, kind in zip(columns, kinds, strict=True)
    ]
    lines = [
        element(
            "tr",
            *(
                _make_cell(cell, kind, is_first=not index)
                for index, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            ),
        )
        for row in rows
    ]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *lines),
    )
    return element("div", table, class_="scroll", role="region", tabindex="0", aria_label=caption)


def make_note(*words: Child) -> Markup:
    """Return a line in small print."""
    return element("p", *words, class_="note")


def describe_more(more: int, where: str = "") -> Markup | None:
    """Describe that a list goes on, and where the rest is; None where it does not."""
    if not more:
        return None
    rest = join("; see ", element("code", where)) if where else None
    return make_note(f"and {format_count(more)} more", rest)


def make_figure(caption: Child, chart: Markup, legend: Markup | None = None) -> Markup:
    """Return a chart with what it shows above it."""
    return element("figure", element("figcaption", caption), chart, legend)


def make_legend(entries: Iterable[tuple[str, str, str]]) -> Markup:
    """Return what the colours of a chart mean.

    Args:
        entries: class, name and number of each; the number may be empty.
    """
    items = (
        element(
            "li",
            element("span", class_=f"key {kind}", aria_hidden="true"),
            name,
            element("b", f" {number}") if number else None,
        )
        for kind, name, number in entries
    )
    return element("ul", *items, class_="legend")


def format_timestamp(time: float | None) -> str:
    """Format a moment, in UTC."""
    return "unknown" if time is None else format_time(time, "%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float | None) -> str:
    """Format a length of time, known or not."""
    return "unknown" if seconds is None else format_seconds(seconds)


def format_hours(seconds: float) -> str:
    """Format seconds as hours, with about three digits."""
    hours = seconds / _HOUR
    digits = next((number for least, number in _DIGITS if hours >= least), 4)
    return f"{hours:,.{digits}f}"


def _make_cell(cell: Cell, kind: str | None, *, is_first: bool) -> Markup:
    content, own = cell if isinstance(cell, tuple) else (cell, None)
    if is_first:
        return element("th", content, scope="row", class_=own or kind)
    return element("td", content, class_=own or kind)
