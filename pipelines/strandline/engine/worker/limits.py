"""Limits of calls and workers: the time of a call, and the age and memory of a worker.

A hanging call in this process can be ended only together with the process. The age and memory of a
worker are checked between two calls, so that the worker is replaced before the kernel kills it
during a call. The module must not depend on the stage of a worker, or on the code that ends and
replaces workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import psutil

LOOK_SECONDS = 0.5
RESERVED_SHARE = 0.9


class WorkerLimits(NamedTuple):
    """Limits of a worker's age and memory.

    Attributes:
        seconds: maximum age, counted from when the worker became ready; None for no limit.
        memory: maximum bytes of the worker and its children; None for no limit.
        is_reserved: whether the memory limit is derived from the stage's reservation instead of
            being
            configured. A derived limit below the worker's base usage is ignored.
    """

    seconds: float | None = None
    memory: int | None = None
    is_reserved: bool = False


class MemoryWatch:
    """Checks one worker against its limits.

    Args:
        now: returns seconds from any fixed point.
        read_memory: returns the bytes that the worker uses.
    """

    def __init__(
        self, limits: WorkerLimits, now: Callable[[], float], read_memory: Callable[[], int]
    ) -> None:
        self._limits = limits
        self._now = now
        self._read_memory = read_memory
        self._begun = now()
        self._due = self._begun
        self._is_first = True

    def look(self) -> str:
        """Return the reason to replace the worker, `age` or `memory`, or an empty string."""
        if self._limits.seconds is None and self._limits.memory is None:
            return ""
        now = self._now()
        if self._limits.seconds is not None and now - self._begun >= self._limits.seconds:
            return "age"
        if self._limits.memory is None or now < self._due:
            return ""
        self._due = now + LOOK_SECONDS
        is_first, self._is_first = self._is_first, False
        if self._read_memory() <= self._limits.memory:
            return ""
        if is_first and self._limits.is_reserved:
            # Drop a derived limit that the worker exceeds in its first check: a replacement would
            # exceed the limit too.
            self._limits = self._limits._replace(memory=None)
            return ""
        return "memory"


def choose_limits(
    max_age: float | None, max_memory: int | None, reserved: int | None
) -> WorkerLimits:
    """Return a stage's limits. The default memory limit is nine tenths of the reserved memory."""
    if max_memory is None and reserved is not None:
        return WorkerLimits(max_age, int(reserved * RESERVED_SHARE), is_reserved=True)
    return WorkerLimits(max_age, max_memory)


def read_own_memory() -> int:
    """Return the private bytes of this process and its children, without shared memory.

    Memory mapped from the object store belongs to Ray, and exists even without the worker.
    """
    process = psutil.Process()
    return sum(map(_read_private, [process, *process.children(recursive=True)]))


def _read_private(process: psutil.Process) -> int:
    with suppress(psutil.Error):  # the child has ended meanwhile
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0


class CallWatch:
    """Reports a call that exceeds its time limit.

    Args:
        now: returns seconds from any fixed point.
        overrun: called with an explanation, on a separate thread; usually does not return.
    """

    def __init__(self, now: Callable[[], float], overrun: Callable[[str], None]) -> None:
        self._now = now
        self._overrun = overrun
        self._change = threading.Condition()
        self._due: float | None = None
        self._words = ""
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, seconds: float | None, words: str) -> Iterator[None]:
        """Watch the block, and report if it exceeds a time limit.

        Args:
            seconds: the block's time limit; None disables the watch.
            words: the explanation to report.
        """
        if seconds is None:
            yield
            return
        self._set(self._now() + seconds, words)
        try:
            yield
        finally:
            self._set(None, "")

    def _set(self, due: float | None, words: str) -> None:
        with self._change:
            self._due, self._words = due, words
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="call-watch", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while True:
            self._overrun(self._wait())

    def _wait(self) -> str:
        """Wait until a call exceeds its limit. Return the call's explanation."""
        with self._change:
            while self._due is None or self._now() < self._due:
                self._change.wait(None if self._due is None else self._due - self._now())
            self._due = None
            return self._words


def explain_overdue(tasks: int, seconds: float) -> str:
    """Explain that a call exceeded its time limit of `seconds`."""
    what = "a task" if tasks == 1 else f"a call of {tasks} tasks"
    return f"{what} took longer than the {seconds:g} s that `timeout` allows"
