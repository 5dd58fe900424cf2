"""Control of an attempt: when to stop, how long to wait for calls, and where to report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from strandline.engine.core.ports import Control, DepartureNotice, Leave, RunProgress
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.folder.takeover import TakenFolder
from strandline.run.attempt.outcome import describe_overrun
from strandline.run.insight.memory_kills import MemoryKills
from strandline.run.insight.records import Witness
from strandline.run.supervise.notices import NoticeFile
from strandline.storage.errors import VolumeError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint

# Share of the grace period reserved for flushing, publishing, and process shutdown.
MARGIN_SHARE = 1 / 3
MARGIN_MOST = 10.0
# Seconds between a stop request and the end of the process, for an attempt without a configured
# grace period. A node that is shutting down gives its pods 15 s or less, without a notice.
PROMPT_SECONDS = 10.0
# Seconds reserved for stopping a local Ray instance and the worker processes. Calls whose duration
# can't be estimated are awaited for `UNKNOWN_SECONDS`.
ENDING_SECONDS = 2.5
UNKNOWN_SECONDS = 3.0
_STDERR = 2


class Grace:
    """The grace period of an attempt, which starts when a method first sees the stop request.

    Args:
        must_stop: returns whether a stop was requested.
        period: seconds until the process may be killed.
        now: monotonic clock, in seconds.
    """

    def __init__(
        self, must_stop: Callable[[], bool], period: float, now: Callable[[], float]
    ) -> None:
        self._must_stop = must_stop
        self._working = period - min(MARGIN_MOST, period * MARGIN_SHARE)
        self._now = now
        self._began: float | None = None

    def is_over(self) -> bool:
        """Return True if the time is up, so calls in flight must be abandoned."""
        if not self._must_stop():
            return False
        if self._began is None:
            self._began = self._now()
        return self._now() - self._began >= self._working

    def find_leave(self) -> Leave:
        """Return the deadlines for calls in flight."""
        if self._began is None:
            return Leave()
        latest_at = self._began + self._working
        return Leave(min(latest_at, self._began + UNKNOWN_SECONDS), latest_at)


def find_period(checkpoint: Checkpoint) -> float:
    """Return the seconds between a stop request and the end of the attempt."""
    period = checkpoint.grace_period_seconds
    is_asked_for = "grace_period" in checkpoint.model_fields_set
    return period if is_asked_for else min(period, PROMPT_SECONDS - ENDING_SECONDS)


def make_control(
    config: AttemptConfig,
    must_stop: Callable[[], bool],
    report: Callable[[RunProgress], None],
    kills: MemoryKills,
) -> Control:
    """Return the control of an attempt. Its progress reports include the notes of all phases."""
    grace = Grace(must_stop, find_period(config.checkpoint), time.monotonic)
    notes: list[str] = []
    return Control(
        must_stop,
        lambda progress: report(progress._replace(notes=notes)),
        time.monotonic,
        must_leave=grace.is_over,
        find_leave=grace.find_leave,
        take_memory_kills=kills.take,
        note=notes.append,
        overrun=partial(_leave_call, None),
        heartbeat=Heartbeat(time.monotonic, time.time, config.stall),
    )


def attach_folder(
    control: Control, held: TakenFolder, report: Callable[[RunProgress], None]
) -> Control:
    """Return a control that uses the attempt's folder.

    The folder has the table of sources in flight, the notices, and the record of the attempt's end.
    """
    notices = NoticeFile(held.folder.notices)
    return replace(
        control,
        report=report,
        inflight=held.inflight,
        overrun=partial(_leave_call, held),
        read_notices=lambda: [DepartureNotice(*notice) for notice in notices.read()],
    )


def _leave_call(held: TakenFolder | None, message: str) -> None:
    """End this process, because a hanging call can't be ended in any other way.

    Sources in flight stay marked, so the next attempt can find the suspect.
    """
    if held is not None:
        with suppress(VolumeError):
            outcome = describe_overrun(message, held.attempt)
            held.end(outcome, Witness.SUPERVISOR)
    # The hanging call may hold the lock of `sys.stderr`, so write to the file descriptor.
    with suppress(OSError):
        os.write(_STDERR, f"strandline: error: {message}\n".encode(errors="backslashreplace"))
    # `sys.exit` would end only this thread.
    os._exit(int(ExitCode.APPLICATION_ERROR))
