"""Formats values that only HTML pages show.

This module does no I/O.
"""

from __future__ import annotations

from strandline.cli.views.format import format_count, format_seconds, format_time

_HOUR = 3600
# Pairs of a minimum number of hours and the number of decimals from there on.
_DIGITS = ((100, 0), (10, 1), (0.1, 2))


def format_timestamp(time: float | None) -> str:
    """Format a time in UTC."""
    return "unknown" if time is None else format_time(time, "%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float | None) -> str:
    """Format a duration, or "unknown"."""
    return "unknown" if seconds is None else format_seconds(seconds)


def format_hours(seconds: float) -> str:
    """Format seconds as hours, with about three digits."""
    hours = seconds / _HOUR
    digits = next((number for least, number in _DIGITS if hours >= least), 4)
    return f"{hours:,.{digits}f}"


def format_figure(number: float | None) -> str:
    """Format a count or a measure of a stage. Return an empty string for an unknown value."""
    if number is None:
        return ""
    return format_count(number) if isinstance(number, int) else f"{number:,.1f}"
