"""Which moments a cron expression means: the one place that knows the library for it.

Pure: the time is given. Where clocks are set forward or back by the zone's rules, a run at a fixed
hour begins once, as Debian's cron has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strandline_api.spec.schedule import RunSchedule

# So many starts are counted at most, as of an operator that was away for long.
MOST_STARTS = 1000


class Starts(NamedTuple):
    """Moments that have passed: the latest, and how many; None where there is none."""

    latest: float | None
    number: int


def find_next(schedule: RunSchedule, after: float) -> float | None:
    """Return the first moment after a time, in seconds since the epoch; None: there is none."""
    return next(_list_moments(schedule, after), None)


def count_starts(schedule: RunSchedule, after: float, now: float) -> Starts:
    """Count the moments after a time, up to now; `MOST_STARTS` stands for so many or more."""
    past = takewhile(lambda time: time <= now, _list_moments(schedule, after))
    passed = list(islice(past, MOST_STARTS))
    latest = passed[-1] if passed else None
    if len(passed) == MOST_STARTS:
        # Looked for from now on backwards, since counting up to it would take too long.
        latest = next(_list_moments(schedule, now + 1.0, is_backwards=True), latest)
    return Starts(latest, len(passed))


def _list_moments(
    schedule: RunSchedule, start: float, *, is_backwards: bool = False
) -> Iterator[float]:
    try:
        moment = datetime.fromtimestamp(int(start), ZoneInfo(schedule.zone))
        moments = CronSim(schedule.cron, moment, reverse=is_backwards)
        for local_moment in moments:
            yield local_moment.timestamp()
    # A rule whose time never comes, or whose zone only a newer release knows.
    except (CronSimError, ZoneInfoNotFoundError, OverflowError, ValueError):
        return
