"""The schedule of runs: a cron expression, a time zone, and names of scheduled runs.

This module defines and validates the fields. It must not depend on clocks, or on the times that an
expression matches.
"""

import re
import zoneinfo
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from strandline_api.api_model import ApiModel, Matching
from strandline_api.notation.quantities import PositiveDuration, parse_duration

# Matches `*`, `*/15`, `7`, `1-5`, and `MON-FRI/2`.
_PART = r"(\*|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?"
_FIELD = rf"{_PART}(,{_PART})*"
_CRON_PATTERN = rf"{_FIELD}( +{_FIELD}){{4}}"
_CRON_LIKE = (
    "five fields (minute, hour, day of the month, month, day of the week), such as '0 3 * * 1'"
)
_ZONE_PATTERN = r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*"
_ZONE_LIKE = "a time zone of the IANA database, such as 'Europe/Berlin'"
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Each field's name, smallest and largest value, and names of values.
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    # Both 0 and 7 are Sunday, as in cron.
    ("day of the week", 0, 7, _DAYS),
)


def _check_cron(text: str) -> str:
    fields = zip(_FIELDS, text.split(), strict=True)
    # Normalize the text, so that equal schedules have equal text.
    return " ".join(
        ",".join(_check_part(rule, part) for part in field.split(",")) for rule, field in fields
    )


def _check_part(rule: tuple[str, int, int, tuple[str, ...]], part: str) -> str:
    """Return a part of a field, such as `*/5` or `MON-FRI`. A range up to Sunday ends with 7."""
    name, least, greatest, words = rule
    span, slash, step = part.partition("/")
    bounds = [_read(word, least, words) for word in span.split("-")] if span != "*" else []
    if any(bound is None or not least <= bound <= greatest for bound in bounds):
        raise ValueError(f"{part!r} is not a valid {name}, which is {least} to {greatest}")
    known = [bound for bound in bounds if bound is not None]
    # In FRI-SUN, Sunday is the last day of the week. The cron library accepts only 7 for the last
    # day.
    if words is _DAYS and len(known) > 1 and known[0] > known[-1] == 0:
        known[-1] = greatest
        span = f"{span.rpartition('-')[0]}-{greatest}"
    if any(later < earlier for earlier, later in pairwise(known)):
        raise ValueError(f"{part!r} ends before it begins")
    if step and not int(step):
        raise ValueError(f"{part!r} has a step of 0")
    return f"{span}{slash}{step}"


def _read(word: str, least: int, words: tuple[str, ...]) -> int | None:
    if word.upper() in words:
        return words.index(word.upper()) + least
    return int(word) if re.fullmatch("[0-9]{1,4}", word) else None


def _check_zone(name: str) -> str:
    try:
        zoneinfo.ZoneInfo(name)
    # In some Python releases, the name of a folder like `Europe` raises an OSError.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # Without the time zone database, a machine can't check names, and runs no schedules.
        if zoneinfo.available_timezones():
            raise ValueError(
                f"unknown time zone {name!r}; write a name such as 'Europe/Berlin'"
            ) from None
    return name


class RunSchedule(ApiModel):
    """When further runs start on a schedule. A run due during another run is skipped."""

    cron: Annotated[
        str, Matching(_CRON_PATTERN, _CRON_LIKE, longest=128), AfterValidator(_check_cron)
    ] = Field(description="Start times of runs, as five fields of cron, such as '0 3 * * 1'.")
    time_zone: (
        Annotated[str, Matching(_ZONE_PATTERN, _ZONE_LIKE, longest=64), AfterValidator(_check_zone)]
        | None
    ) = Field(
        default=None,
        description="Time zone of 'cron', such as 'Europe/Berlin'. UTC when unset.",
    )
    starting_deadline: PositiveDuration | None = Field(
        default=None,
        description=(
            "Longest delay of a run whose start the operator missed, such as '1h'. After that, the "
            "run is skipped. No limit when unset."
        ),
    )

    @property
    def zone(self) -> str:
        """Name of the time zone."""
        return self.time_zone or "UTC"

    @property
    def rule(self) -> str:
        """Cron expression and time zone in one text."""
        return f"{self.cron} {self.zone}"

    @property
    def starting_deadline_seconds(self) -> float | None:
        """Seconds by which a run may start late, or None for no limit."""
        return None if self.starting_deadline is None else parse_duration(self.starting_deadline)


def name_scheduled_run(time: float) -> str:
    """Return the name of the run scheduled for a time: `at-20261124t0300z`, in UTC.

    Args:
        time: seconds since the epoch.
    """
    return f"at-{datetime.fromtimestamp(time, UTC):%Y%m%dt%H%M}z"
