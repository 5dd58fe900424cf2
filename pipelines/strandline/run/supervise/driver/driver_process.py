"""Runs an attempt in a separate process: starts, watches, and stops it, and records its end.

The parent process is small and hard to kill, so it survives to report how the driver died. It loads
no stage, and opens the ledger only after the driver is gone.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from strandline.engine.call.descendants import ending_orphans
from strandline.run.insight.lineage.marker import ENDED, read_marker
from strandline.run.insight.memory_kills import MemoryKills
from strandline.run.insight.records import (
    TABLE,
    AttemptRecord,
    Witness,
    find_of_process,
    read_progress,
)
from strandline.run.supervise.driver.driver_message import LastMessage
from strandline.run.supervise.driver.retained_driver import (
    DriverStart,
    RetainedDriver,
    RunningDriver,
    make_command,
)
from strandline.run.supervise.ending import DriverEnd, conclude, is_crash_of_ray
from strandline.run.supervise.record_writing import write_record
from strandline.run.supervise.stop import Stop
from strandline.run.supervise.supervision import EndedAttempt
from strandline.run.supervise.variables import list_ray_variables
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.driver_logs import DriverLog, begin_log
from strandline.storage.volume.inflight import read_worked
from strandline.storage.volume.latest import name_latest
from strandline.storage.volume.locks import Process, find_process, read_boot_id
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.evidence import Evidence, find_signal
from strandline_api.status.enums import Trigger

POLL_SECONDS = 0.1
LOOK_SECONDS = 5.0  # time between two checks of deadlines and progress
FORCE_SECONDS = 5.0  # time between the end of the grace period and a kill
SCORE = Path("oom_score_adj")


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """Time limits of a driver in seconds. None means no limit.

    Attributes:
        grace: time between the stop request and a kill.
        attempt: duration of an attempt.
        stall: time without progress.
    """

    grace: float
    attempt: float | None = None
    stall: float | None = None


@dataclass(slots=True)
class DriverProcess:
    """Starts the drivers of a pipeline, one after another.

    Attributes:
        command: the command line, without the trigger.
        folder: folder of the pipeline.
        limits: time limits of each driver.
        stop: the stop request, polled while a driver runs.
        shares_terminal: whether the driver may read from the terminal, for a debugger.
        after: cause of the end of the attempt before the first attempt, or None if unknown.
        stdout: descriptor for the driver's standard output, or None to inherit this process's.
        kept: descriptors whose output goes to a log of the attempt.
        others: passes a driver on from the previous and to the next pipeline, or None if every
            driver ends with its pipeline.
        ray, forks: see `DriverStart`; used only if the ledger does not exist, so work is left.
        is_forkable: see `DriverStart`.
        pid: pid of the last driver, or None before the first.
        log_file: log of the last attempt, relative to the folder; empty if there is no log.
    """

    command: Sequence[str]
    folder: PipelineFolder
    limits: DriverLimits
    stop: Stop
    shares_terminal: bool = False
    after: str | None = None
    stdout: int | None = None
    kept: tuple[int, ...] = ()
    others: RetainedDriver | None = None
    ray: str | None = None
    forks: bool = False
    is_forkable: bool = False
    pid: int | None = field(default=None, init=False)
    log_file: str = field(default="", init=False)
    _asked: Evidence | None = field(default=None, init=False)

    def attempt(self, trigger: Trigger, most_seconds: float | None = None) -> EndedAttempt:
        """Run a driver to its end.

        Args:
            most_seconds: seconds left until the run's own deadline, or None if there is no
                deadline.
        """
        kills, log = MemoryKills.of_this_process(), self._begin_log()
        self._asked = None
        try:
            with ending_orphans() as end_orphans:
                driver = self._find_driver(trigger, log)
                try:
                    with driver.printing(log):
                        code = self._watch(driver, _least(self.limits.attempt, most_seconds))
                        if not driver.is_waiting:
                            end_orphans()  # first, because orphans may print until they end
                finally:
                    reported = self._leave(driver)
            fallen = kills.count()
            words = kills.read_log()
        finally:
            kills.close()
        end = DriverEnd(
            driver.process.pid,
            code,
            self._asked,
            fallen,
            words,
            reported.text,
            list_ray_variables(os.environ),
        )
        ended = self._put_down(end, driver.identity)
        return ended._replace(is_lasting=ended.is_lasting or reported.is_lasting)

    def measure_silence(self) -> float | None:
        """Return how many seconds ago the last driver made progress; see `DriverLimits.stall`.

        Return None if unknown.
        """
        return None if self.pid is None else _measure_silence(self.folder, find_process(self.pid))

    def _begin_log(self) -> DriverLog | None:
        log = begin_log(self.folder, time.time()) if self.kept else None
        self.log_file = log.path.relative_to(self.folder.path).as_posix() if log else ""
        return log

    def _find_driver(self, trigger: Trigger, log: DriverLog | None) -> RunningDriver:
        """Return a running driver: the driver of the previous pipeline, or a new driver."""
        words = [*self.command, "--trigger", trigger]
        if self.after is not None:
            words += ["--after", self.after]
            self.after = None  # this process itself observes all later ends
        driver = self.others.take() if self.others else None
        if driver is not None and not driver.go_on(words[len(make_command()) :], log):
            driver.dismiss()
            driver = None
        if driver is None:
            goes_on = self.others is not None
            # If a ledger exists, all sources may be finished, so do not start Ray or forks ahead.
            is_new = not self.folder.ledger.exists()
            ray, forks = (self.ray, self.forks) if is_new else (None, False)
            start = DriverStart(
                words,
                self.shares_terminal,
                self.stdout,
                self.kept,
                goes_on,
                ray,
                forks,
                self.is_forkable,
            )
            driver = RunningDriver.start(start, log)
            _protect(driver.process.pid)
        self.pid = driver.process.pid
        return driver

    def _leave(self, driver: RunningDriver) -> LastMessage:
        if self.others is not None and driver.is_waiting:
            self.others.keep(driver)
            return LastMessage()
        return driver.leave()

    def _watch(self, driver: RunningDriver, most_seconds: float | None) -> int:
        begun = look_at = time.monotonic()
        asked_before, force_at = 0, math.inf
        while True:
            code = driver.wait(POLL_SECONDS)
            if code is not None:
                return code
            now = time.monotonic()
            if self._asked is None and self.stop.is_asked():
                self._asked = _describe_stop(self.stop.signal)
            elif self._asked is None and now >= look_at:
                look_at = now + LOOK_SECONDS
                self._asked = self._find_reason(driver.identity, now - begun, most_seconds)
            # Forward each request once. A stop that this process initiates counts as one request.
            if self._asked is not None and asked_before < max(1, self.stop.times):
                asked_before += 1
                if asked_before > self.stop.received:
                    # After a first stop request, the driver treats SIGINT as a request to end
                    # immediately.
                    again = signal.SIGTERM if asked_before == 1 else signal.SIGINT
                    driver.process.send_signal(again)
                grace = self.limits.grace if asked_before == 1 else 0.0
                force_at = min(force_at, now + grace + FORCE_SECONDS)
            if now > force_at:
                driver.process.kill()

    def _find_reason(
        self, driver: Process | None, ran: float, most_seconds: float | None
    ) -> Evidence | None:
        """Return the reason to stop the driver, if any."""
        if most_seconds is not None and ran > most_seconds:
            message = f"the deadline of {most_seconds:g} s has passed"
            return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline")
        stall = self.limits.stall
        if stall is None or ran < stall:
            return None
        silent = _measure_silence(self.folder, driver)
        if silent is None or silent < stall:
            return None
        message = f"the driver did not respond for {silent:.0f} s"
        return Evidence(Cause.STALLED, message, "deadline")

    def _put_down(self, end: DriverEnd, driver: Process | None) -> EndedAttempt:
        record = _find_record(self.folder, driver)
        reported = None if record is None else record.outcome
        progress = None if record is None else read_progress(self.folder, record.number)
        outcome = conclude(record, end, progress, name_latest(self.folder))
        if record is not None and _is_word_of(reported, outcome):
            # If the driver could not report its end to lineage systems, another process must do so.
            is_known = read_marker(self.folder, record.number) == ENDED
            outcome = outcome.model_copy(update={"lineage": is_known})
        outcome = outcome.model_copy(update={"log_file": self.log_file})
        now = time.time()
        if record is not None:
            witness = record.witness or Witness.SUPERVISOR
            record = record.end(outcome, now, witness)
            with suppress(VolumeError):  # a full disk may be the cause; report the end anyway
                write_record(self.folder, record)
        ledger = record.ledger if record else ""
        if record is None:  # the driver itself has printed why it could not start
            is_reported = find_signal(outcome.exit_code) is None and end.returncode >= 0
        else:
            is_reported = _is_word_of(reported, outcome)
        is_lasting = record is None and is_crash_of_ray(end)
        return EndedAttempt(
            outcome, now, ledger, self.stop.is_asked(), is_reported, is_lasting=is_lasting
        )


def _describe_stop(number: int | None) -> Evidence:
    """Describe a stop request. A signal does not identify its sender."""
    if number is None:
        return Evidence(Cause.INTERRUPTED, "asked to stop", "signal")
    name = signal.Signals(number).name
    return Evidence(Cause.INTERRUPTED, f"asked to stop by {name}", "signal")


def _protect(driver: int) -> None:
    """Make the kernel kill the driver, not this process, if memory runs out."""
    own, its = Path("/proc/self") / SCORE, Path(f"/proc/{driver}") / SCORE
    with suppress(OSError, ValueError):
        score = int(own.read_text(encoding="ascii"))
        # Any process may raise a score, but the maximum is 1000.
        its.write_text(str(min(1000, score + 100)), encoding="ascii")


def _is_word_of(reported: DriverOutcome | None, outcome: DriverOutcome) -> bool:
    """Return True if the attempt ended with the exit code that its driver reported."""
    return reported is not None and reported.exit_code == outcome.exit_code


def _find_record(folder: PipelineFolder, driver: Process | None) -> AttemptRecord | None:
    return None if driver is None else find_of_process(folder, read_boot_id(), driver)


def _measure_silence(folder: PipelineFolder, driver: Process | None) -> float | None:
    record = _find_record(folder, driver)
    if record is None:
        return None
    worked = read_worked(folder.attempt(record.number) / TABLE)
    # The monotonic clock stops while the machine sleeps, and is never adjusted.
    return None if worked is None else max(0.0, time.monotonic() - worked)


def _least(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def wait_until(
    due: float, stop: Stop, show: Callable[[float], None], sleep: Callable[[float], object]
) -> bool:
    """Wait until a wall clock time. Return False if a stop is requested in the meantime.

    The wait does not get longer if the clock is set back or the machine sleeps.

    Args:
        show: called with the remaining seconds, immediately and then about every second.
    """
    end_at = time.monotonic() + due - time.time()
    while True:
        left = max(0.0, min(due - time.time(), end_at - time.monotonic()))
        show(left)
        if stop.is_asked() or not left:
            return not stop.is_asked()
        end = time.monotonic() + min(1.0, left)
        while not stop.is_asked() and time.monotonic() < end:
            sleep(POLL_SECONDS / 2)
