"""Converts times between RFC 3339 text in UTC and seconds since the epoch.

The retry law adds and compares times in seconds. A status outlives the process that wrote it, so
parsing a formatted time must return the same time. This module must not read a clock.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH).total_seconds()
_LATEST = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds()
# Matches `2026-11-21T10:31:05Z` and `2026-11-21T10:31:05.25+01:00`. Python's own parser also
# accepts other forms, like a date alone.
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def format_time(seconds: float) -> str:
    """Format a time to the millisecond: `2026-11-21T10:31:05Z`, `2026-11-21T10:31:05.250Z`.

    Args:
        seconds: seconds since the epoch, in the years 1 to 9999.

    Raises:
        ValueError: if the time is outside of these years, or not a number.
    """
    if not _EARLIEST <= seconds <= _LATEST:
        raise ValueError(f"must be a moment in the years 1 to 9999, not {seconds} seconds")
    # Round to whole milliseconds first: after additions, a float may be slightly too small.
    moment = _EPOCH + timedelta(milliseconds=round(seconds * 1000))
    is_whole = not moment.microsecond
    text = moment.replace(tzinfo=None).isoformat(timespec="seconds" if is_whole else "milliseconds")
    return f"{text}Z"


def parse_time(text: str) -> float:
    """Parse a time in Kubernetes' notation. Return seconds since the epoch.

    Raises:
        ValueError: if the text is not RFC 3339, or the time does not exist.
    """
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError("must be a time such as '2026-11-21T10:31:05Z'")
    return (datetime.fromisoformat(text.upper()) - _EPOCH).total_seconds()


def _read(value: object) -> object:
    seconds = parse_time(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return value
    if not _EARLIEST <= seconds <= _LATEST:
        raise ValueError("must be a time in the years 1 to 9999")
    # Round as `format_time` does, so that parsing returns the same value.
    return round(seconds * 1000) / 1000


# Field type: seconds since the epoch, rounded to milliseconds in memory, and RFC 3339 text in YAML.
Time = Annotated[
    float,
    BeforeValidator(_read),
    PlainSerializer(format_time, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64}),
]
