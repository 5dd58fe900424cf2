"""Numbers and tables as people read them. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

_MINUTE = 60
_HOUR = 3600
_STEP = 1000


def spell_count(number: int) -> str:
    """A number with its thousands apart: 12,345."""
    return f"{number:,}"


def spell_amount(number: int, noun: str) -> str:
    """A number and its noun: 1 file, 2 files."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_time(time: float, form: str) -> str:
    """A moment as `strftime` spells it, in UTC; "unknown" where no calendar has it.

    Args:
        time: seconds since the epoch.
    """
    try:
        return f"{datetime.fromtimestamp(time, UTC):{form}}"
    except (OSError, OverflowError, ValueError):
        return "unknown"


def spell_seconds(seconds: float) -> str:
    """A length of time in one or two units: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 9.95:  # noqa: PLR2004 - from here on a tenth says nothing
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR:,} h {whole % _HOUR // _MINUTE} min"


def spell_rate(rate: float) -> str:
    """Sources a second: 0.25/s, 3.1/s, 1,200/s."""
    digits = 2 if rate < 1 else 1 if rate < 100 else 0  # noqa: PLR2004 - three digits are enough
    return f"{rate:,.{digits}f}/s"


def spell_bytes(size: int) -> str:
    """A number of bytes: 512 bytes, 4.2 MB."""
    if size < _STEP:
        return spell_amount(size, "byte")
    value, unit = size / _STEP, "kB"
    for larger in ("MB", "GB", "TB"):
        if round(value, 1) < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:,.1f} {unit}"


def spell_text(text: str) -> str:
    """Text from outside, with what would move the cursor or break the line spelled out."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def align(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Rows of cells as lines; the first `left` columns begin, all others end, in line."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
