"""The sign of life of an attempt, given by a thread that knows whether the process still works.

That the process is there says little. Code at work says so after each step: a turn of a loop, a
piece that was joined, a source that was committed. While foreign code runs that can't say it, what
the process computes and moves counts instead. It must not know what is worked on, nor what looks.
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
# Less than this in so many seconds is what an idle process does anyway.
WINDOW_SECONDS = 15.0
LEAST_SECONDS = 0.5
LEAST_BYTES = 1 << 20
_IO = Path("/proc/self/io")
_MOVED = {"rchar", "wchar", "read_bytes", "write_bytes"}


class ProcessUsage(NamedTuple):
    """What a process has done since it began: seconds computed, bytes read and written."""

    seconds: float
    moved: int


class Heartbeat:
    """Beats while the process works: renews the lease of a ledger, and shows when it worked last.

    Args:
        now: seconds from a fixed point that all processes of this machine share, and that neither
            a clock that is set nor a machine that sleeps moves.
        time: wall clock, seconds since the epoch; it goes into the lease.
        limit: seconds without a step after which the lease is renewed no more; None: never.
        read_effort: what this process has done.
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
        """Note a step of the work that is done; to be called often.

        Raises:
            StrandlineError: what has kept the lease from being renewed.
        """
        self._has_worked = True
        if self._error is not None:
            raise self._error

    @contextmanager
    def trusting(self) -> Iterator[None]:
        """Count whatever the process computes and moves as work, as long as the block runs.

        For code that can't tell of its steps; one that hangs does neither.
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
        """Renew a lease every so often as long as the block runs, from another thread.

        Args:
            renew: takes the wall clock's time; of several, the one that began last is called.
        """
        with self._turn:
            self._renewals.append(renew)
            self._due = self._now()
        try:
            yield
        finally:
            with self._turn:  # the block is not under way any more
                # Blocks of two threads end in any order, so what began last need not end first.
                self._renewals.remove(renew)

    @contextmanager
    def showing(self, show: Callable[[float], None]) -> Iterator[None]:
        """Show to others when the process worked last, at once and as long as the block runs.

        Args:
            show: takes a time by `now`; it is called from another thread.
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
        """Renew the lease in a thread as long as the block runs."""
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
        """Describe that the process works, if it does; the lease is renewed where that is due."""
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
        """Return whether enough was done of late by code that tells of no steps."""
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
    """Return whether more was done between two looks than an idle process does."""
    is_computing = after.seconds - before.seconds >= LEAST_SECONDS
    return is_computing or after.moved - before.moved >= LEAST_BYTES


def read_moved(path: Path = _IO) -> int:
    """Return bytes that a process has read and written; 0 where the kernel does not count them."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    pairs = (line.split(": ") for line in lines)
    return sum(int(pair[1]) for pair in pairs if pair[0] in _MOVED)


def _read_effort() -> ProcessUsage:
    return ProcessUsage(time.process_time(), read_moved())
