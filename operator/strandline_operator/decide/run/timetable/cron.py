"""Computes the start times of a cron expression. Only this module uses the cron library.

The module is pure: time is a parameter. When daylight saving time shifts the clock, a run at a
fixed hour starts once, as in Debian's cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strandline_api.spec.schedule import RunSchedule

# Maximum number of start times to count, for example after a long outage of the operator.
MOST_STARTS = 1000


class PastStarts(NamedTuple):
    """Start times that have passed: the latest (None if there is none), and how many."""

    latest: float | None
    number: int


def find_next(schedule: RunSchedule, after: float) -> float | None:
    """Return the first start after a time, in seconds since the epoch, if any."""
    return next(_list_moments(schedule, after), None)


def count_starts(schedule: RunSchedule, after: float, now: float) -> PastStarts:
    """Count the start times after `after` and up to now, but at most `MOST_STARTS`."""
    past = takewhile(lambda time: time <= now, _list_moments(schedule, after))
    passed = list(islice(past, MOST_STARTS))
    latest = passed[-1] if passed else None
    if len(passed) == MOST_STARTS:
        # Find the latest start by searching backwards, because counting all starts would take too
        # long.
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
    # The rule never matches, or this Python release does not have the time zone.
    except (CronSimError, ZoneInfoNotFoundError, OverflowError, ValueError):
        return
