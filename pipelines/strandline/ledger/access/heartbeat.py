"""Heartbeat of an attempt: a thread that reports whether the process still makes progress.

A running process may still hang. Code therefore reports finished steps: a turn of a loop, a joined
piece, a committed source. Foreign code cannot report steps, so CPU time and I/O of the process
count as progress while such code runs. The module must not depend on the kind of work, nor on the
reader of the heartbeat.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from strandline.ledger.records.entries import RENEWAL_SECONDS

TICK_SECONDS = 1.0
# Thresholds: an idle process uses less CPU time and I/O than this in a window.
WINDOW_SECONDS = 15.0
LEAST_SECONDS = 0.5
LEAST_BYTES = 1 << 20
_IO = Path("/proc/self/io")
_MOVED = {"rchar", "wchar", "read_bytes", "write_bytes"}


class ProcessUsage(NamedTuple):
    """Resources used by a process since its start: CPU seconds, and bytes read and written."""

    seconds: float
    moved: int


class Heartbeat:
    """Renews a ledger's lease and publishes the time of the last step while a process works.

    Args:
        now: monotonic clock in seconds. All processes of the machine share its origin, and neither
            clock changes nor suspends of the machine affect it.
        time: wall clock, in seconds since the epoch, for the lease.
        limit: seconds without a step after which the lease is no longer renewed, or None for no
            limit.
        read_effort: returns the resources that this process has used.
    """

    def __init__(
        self,
        now: Callable[[], float],
        time: Callable[[], float],
        limit: float | None = None,
        read_effort: Callable[[], ProcessUsage] | None = None,
    ) -> None:
        self._now = now
        self._time = time
        self._limit = limit
        self._read_effort = read_effort or _read_effort
        self._worked = self._due = now()
        self._has_worked = False
        self._trusted = 0
        self._begun: tuple[float, ProcessUsage] | None = None
        self._show: Callable[[float], None] = lambda _: None
        self._renewals: list[Callable[[float], None]] = []
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._error: Exception | None = None

    def note_progress(self) -> None:
        """Record a finished step of work. Call this method often.

        Raises:
            StrandlineError: if the lease could not be renewed.
        """
        self._has_worked = True
        if self._error is not None:
            raise self._error

    @contextmanager
    def trusting(self) -> Iterator[None]:
        """Count CPU time and I/O of the process as work until the block ends.

        Use this for code that cannot report steps. A hanging call uses neither CPU time nor I/O.
        """
        with self._counting:
            self._trusted += 1
        try:
            yield
        finally:
            with self._counting:
                self._trusted -= 1
            self._has_worked = True

    @contextmanager
    def renewing(self, renew: Callable[[float], None]) -> Iterator[None]:
        """Renew a lease regularly from another thread until the block ends.

        Args:
            renew: receives the wall clock time. If several blocks are active, the latest `renew` is
                called.
        """
        with self._turn:
            self._renewals.append(renew)
            self._due = self._now()
        try:
            yield
        finally:
            with self._turn:  # wait for a running renewal before the block ends
                # Remove this entry, which need not be the last: two threads may leave their blocks
                # in any order.
                self._renewals.remove(renew)

    @contextmanager
    def showing(self, show: Callable[[float], None]) -> Iterator[None]:
        """Publish the time of the last step, immediately and then regularly until the block ends.

        Args:
            show: receives a time of the clock `now`, in another thread.
        """
        with self._turn:
            self._show = show
            show(self._worked)
        try:
            yield
        finally:
            with self._turn:
                self._show = lambda _: None

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Call `renew_lease` regularly from a thread until the block ends."""
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(TICK_SECONDS):
                self.renew_lease()

        thread = threading.Thread(target=renew, name="heart", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def renew_lease(self) -> None:
        """Publish the time of the last step, and renew the lease if a renewal is due."""
        now = self._now()
        is_busy = self._look_at_effort(now)
        if self._has_worked or is_busy:
            self._has_worked, self._worked = False, now
        with self._turn:
            self._show(self._worked)
            is_alive = self._limit is None or now - self._worked < self._limit
            if not self._renewals or self._error is not None or now < self._due or not is_alive:
                return
            self._due = now + RENEWAL_SECONDS
            try:
                self._renewals[-1](self._time())
            except Exception as error:  # noqa: BLE001 - raised where the work goes on
                self._error = error

    def _look_at_effort(self, now: float) -> bool:
        """Return True if code that reports no steps has recently used enough resources."""
        if not self._trusted:
            self._begun = None
            return False
        effort = self._read_effort()
        if self._begun is None:
            self._begun = (now, effort)
            return False
        since, before = self._begun
        is_busy = has_progressed(before, effort)
        if is_busy or now - since >= WINDOW_SECONDS:
            self._begun = (now, effort)
        return is_busy


def has_progressed(before: ProcessUsage, after: ProcessUsage) -> bool:
    """Return True if the process used more between two readings than an idle process does."""
    is_computing = after.seconds - before.seconds >= LEAST_SECONDS
    return is_computing or after.moved - before.moved >= LEAST_BYTES


def read_moved(path: Path = _IO) -> int:
    """Return the bytes a process has read and written, or 0 if the kernel does not count them."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    pairs = (line.split(": ") for line in lines)
    return sum(int(pair[1]) for pair in pairs if pair[0] in _MOVED)


def _read_effort() -> ProcessUsage:
    return ProcessUsage(time.process_time(), read_moved())
