"""Formats numbers and tables for people.

This module does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import wrap

from strandline.data.statistics.request_figures import SHARES, RequestFigures, format_cost
from strandline_api.outcome.work_lost import WorkLost

_MINUTE = 60
_HOUR = 3600
_STEP = 1000
# Above the second limit, a float can't represent all whole numbers (2**53, about 9e15), and printed
# digits would suggest a precision that does not exist.
_SIX_DIGITS, _GREATEST_WHOLE = 1e6, 1e15
_GAP = 2  # spaces between columns
_INDENT = 4
_LEAST_TEXT = 24  # minimum width of a last column that is broken into lines


def format_count(number: int) -> str:
    """Format a number with separated thousands: 12,345."""
    return f"{number:,}"


def format_measure(number: float) -> str:
    """Format a number: whole numbers with all digits, others with six significant digits."""
    is_whole = float(number).is_integer() or abs(number) >= _SIX_DIGITS
    if is_whole and abs(number) < _GREATEST_WHOLE:
        return f"{number:,.0f}"
    return f"{number:,.6g}"


def format_amount(number: int, noun: str) -> str:
    """Format a number and its noun: 1 file, 2 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe_requests(figures: RequestFigures) -> str:
    """Describe requests to a model: number of requests, tokens, cost, and response times."""
    tokens = (figures.prompt_tokens, figures.completion_tokens)
    parts = [format_amount(figures.sent, "request")]
    if figures.from_log:
        parts.append(f"{figures.from_log:,} answered by the log")
    if any(tokens):
        parts.append(f"{tokens[0]:,} tokens in, {tokens[1]:,} out")
    if figures.estimated:
        parts.append(f"tokens of {format_amount(figures.estimated, 'request')} estimated")
    if figures.cost is not None:
        parts.append(f"cost {format_cost(figures.cost)}")
    times = [
        f"{share:.0%} {_describe_bound(seconds)}"
        for share, seconds in zip(SHARES, figures.times, strict=False)
    ]
    counted = ", ".join(parts)
    return f"{counted}; of answers {', '.join(times)}" if times else counted


def _describe_bound(seconds: float) -> str:
    return "after longer" if math.isinf(seconds) else f"within {seconds:g} s"


def format_time(time: float, form: str) -> str:
    """Format a time in UTC, as `strftime` does. Return "unknown" for times outside the calendar.

    Args:
        time: seconds since the epoch.
    """
    try:
        return f"{datetime.fromtimestamp(time, UTC):{form}}"
    except (OSError, OverflowError, ValueError):
        return "unknown"


def format_seconds(seconds: float) -> str:
    """Format a length of time in one or two units: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 9.95:  # noqa: PLR2004 - above this, tenths do not matter
        return f"{seconds:.1f} s"
    # Round before choosing the unit: 59.7 becomes `1 min 0 s` instead of `60 s`.
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR:,} h {whole % _HOUR // _MINUTE} min"


def describe_lost_work(lost: WorkLost, worked: float) -> str:
    """Describe the repeated work as a share of all work; empty if the share is negligible."""
    if lost.seconds < 1:
        return ""
    causes = [name for name, seconds in lost.to_json().items() if seconds >= 1]
    words = f"{format_seconds(lost.seconds)} of work is repeated"
    share = f", {lost.find_share(worked):.1%} of all" if worked else ""
    return f"{words}{share} ({', '.join(causes)})" if causes else f"{words}{share}"


def format_rate(rate: float) -> str:
    """Format a rate in sources per second: 0.25/s, 3.1/s, 1,200/s."""
    digits = 2 if rate < 1 else 1 if rate < 100 else 0  # noqa: PLR2004 - three digits are enough
    return f"{rate:,.{digits}f}/s"


def format_bytes(size: int) -> str:
    """Format a number of bytes: 512 bytes, 4.2 MB."""
    if size < _STEP:
        return format_amount(size, "byte")
    value, unit = size / _STEP, "kB"
    for larger in ("MB", "GB", "TB"):
        # Compare the rounded value: 999,960 bytes are `1.0 MB`, not `1,000.0 kB`.
        if round(value, 1) < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:,.1f} {unit}"


def escape_text(text: str) -> str:
    """Return text from users or data, with control characters and line breaks escaped."""
    # Keys and messages come from data, and sequences such as `\x1b[2J` would control the terminal.
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def align(rows: Sequence[Sequence[str]], left: int = 1, width: int | None = None) -> Iterator[str]:
    """Yield each row of cells as text. The first `left` columns are left-aligned, the others right.

    Args:
        width: number of characters in a line. A longer row continues with an indentation on the
            next line, so that no text is lost. None for unlimited lines.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    count = len(widths)
    fitting = _count_fitting(widths, width)
    if width is None or fitting == count:
        yield from (_join(row, widths, left) for row in rows)
        return
    room = width - sum(widths[:-1]) - _GAP * (count - 1)
    if left == count and room >= _LEAST_TEXT:
        yield from (_hang(row, widths, room) for row in rows)
        return
    if fitting == 0:  # the first column needs a line of its own
        yield from (_hang(row, widths, width) for row in rows)
        return
    heads = (_join(row[:fitting], widths[:fitting], left) for row in rows)
    rest = align([row[fitting:] for row in rows], max(0, left - fitting), width - _INDENT)
    for head, tail in zip(heads, rest, strict=True):
        lines = [f"{' ' * _INDENT}{line}" for line in tail.splitlines() if line.strip()]
        yield "\n".join([head, *lines])


def _count_fitting(widths: Sequence[int], width: int | None) -> int:
    """Return how many columns fit into a line."""
    # No gap precedes the first column.
    taken = -_GAP
    for index, each in enumerate(widths):
        taken += _GAP + each
        if width is not None and taken > width:
            return index
    return len(widths)


def _join(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        cell.ljust(width) if index < left else cell.rjust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return (" " * _GAP).join(cells).rstrip()


def _hang(row: Sequence[str], widths: Sequence[int], room: int) -> str:
    """Return a row whose last text is wrapped: all its lines begin in the same column."""
    *_, last = row
    # Do not break long words such as paths and keys. For empty text, `wrap` returns an empty list.
    first, *more = wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
    head = _join([*row[:-1], first], [*widths[:-1], 0], len(row))
    indent = " " * (sum(widths[:-1]) + _GAP * (len(widths) - 1))
    return "\n".join([head, *(f"{indent}{line}" for line in more)])
