"""Start times of a cron expression; the only user of the cron library.

Pure: time is a parameter. When daylight saving time shifts the clock, a run at a fixed hour starts
once, as in Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strandline_api.spec.schedule import RunSchedule

# Maximum number of counted starts, for example after a long outage of the operator.
MOST_STARTS = 1000


class PastStarts(NamedTuple):
    """Start times that have passed: the latest (None if no start has passed), and their number."""

    latest: float | None
    number: int


def find_next(schedule: RunSchedule, after: float) -> float | None:
    """Return the first start after a time, in seconds since the epoch; None if there is none."""
    return next(_list_moments(schedule, after), None)


def count_starts(schedule: RunSchedule, after: float, now: float) -> PastStarts:
    """Count the starts after a time, up to now, but at most `MOST_STARTS`."""
    past = takewhile(lambda time: time <= now, _list_moments(schedule, after))
    passed = list(islice(past, MOST_STARTS))
    latest = passed[-1] if passed else None
    if len(passed) == MOST_STARTS:
        # Search backwards from now, because counting forwards would take too long.
        latest = next(_list_moments(schedule, now + 1.0, is_backwards=True), latest)
    return PastStarts(latest, len(passed))


def _list_moments(
    schedule: RunSchedule, start: float, *, is_backwards: bool = False
) -> Iterator[float]:
    try:
        moment = datetime.fromtimestamp(int(start), ZoneInfo(schedule.zone))
        moments = CronSim(schedule.cron, moment, reverse=is_backwards)
        for local_moment in moments:
            yield local_moment.timestamp()
    # A rule that never matches, or a time zone that this release does not have.
    except (CronSimError, ZoneInfoNotFoundError, OverflowError, ValueError):
        return
