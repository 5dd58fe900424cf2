"""The control of an attempt: when it stops, how long it waits for calls, and its reports."""

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
# A node that goes gives its pods 15 s and less, without a notice. Where the pipeline sets no grace
# period, the attempt has ended this many seconds after the request to stop.
PROMPT_SECONDS = 10.0
# Of these a local Ray and the processes take so much to end. A call whose length is not known is
# waited for the seconds below.
ENDING_SECONDS = 2.5
UNKNOWN_SECONDS = 3.0
_STDERR = 2


class Grace:
    """Counts from the moment at which it first sees the request to stop.

    Args:
        must_stop: returns whether a stop was requested.
        period: seconds until force may be used.
        now: seconds from any fixed point.
    """

    def __init__(
        self, must_stop: Callable[[], bool], period: float, now: Callable[[], float]
    ) -> None:
        self._must_stop = must_stop
        self._working = period - min(MARGIN_MOST, period * MARGIN_SHARE)
        self._now = now
        self._began: float | None = None

    def is_over(self) -> bool:
        """Return whether calls in flight are to be given up."""
        if not self._must_stop():
            return False
        if self._began is None:
            self._began = self._now()
        return self._now() - self._began >= self._working

    def find_leave(self) -> Leave:
        """Return until when calls in flight are waited for."""
        if self._began is None:
            return Leave()
        latest_at = self._began + self._working
        return Leave(min(latest_at, self._began + UNKNOWN_SECONDS), latest_at)


def find_period(checkpoint: Checkpoint) -> float:
    """Return the seconds that an attempt has between the request to stop and its end."""
    period = checkpoint.grace_period_seconds
    is_asked_for = "grace_period" in checkpoint.model_fields_set
    return period if is_asked_for else min(period, PROMPT_SECONDS - ENDING_SECONDS)


def make_control(
    config: AttemptConfig,
    must_stop: Callable[[], bool],
    report: Callable[[RunProgress], None],
    kills: MemoryKills,
) -> Control:
    """Return the control of an attempt; its progress carries the notes of all phases."""
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
    """Return the control of an attempt that has a folder: for its marks, notices, and last word."""
    notices = NoticeFile(held.folder.notices)
    return replace(
        control,
        report=report,
        inflight=held.inflight,
        overrun=partial(_leave_call, held),
        read_notices=lambda: [DepartureNotice(*notice) for notice in notices.read()],
    )


def _leave_call(held: TakenFolder | None, message: str) -> None:
    """End this process with the call that hangs in it: nothing else can end that call.

    Sources in flight stay marked, so that the next attempt knows which one to suspect.
    """
    if held is not None:
        with suppress(VolumeError):
            outcome = describe_overrun(message, held.attempt)
            held.end(outcome, Witness.SUPERVISOR)
    with suppress(OSError):
        os.write(_STDERR, f"strandline: error: {message}\n".encode(errors="backslashreplace"))
    os._exit(int(ExitCode.APPLICATION_ERROR))
