"""What a call and a worker may take: a call in this process its time, a worker its age and memory.

A call that hangs here can't be ended but with the process; a worker is asked between two calls, so
that it is replaced before the kernel takes it in the midst of one. It must not know what ends the
process, to which stage a worker belongs, or what replaces it.
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
    """How old and how large a worker may grow.

    Attributes:
        seconds: since it was ready; None: any age.
        memory: bytes of its own and its children's; None: any number.
        is_reserved: the memory's limit was not asked for, it is what the stage reserves; so one
            that is below what a worker takes anyway is no limit.
    """

    seconds: float | None = None
    memory: int | None = None
    is_reserved: bool = False


class MemoryWatch:
    """Looks at one worker.

    Args:
        now: seconds from any fixed point.
        read_memory: bytes that the worker takes.
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
        """Return why the worker should be replaced: `age`, `memory`, or empty."""
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
            # A new worker would be as large after a call: there is nothing to gain.
            self._limits = self._limits._replace(memory=None)
            return ""
        return "memory"


def choose_limits(
    max_age: float | None, max_memory: int | None, reserved: int | None
) -> WorkerLimits:
    """Return a stage's limits: those it asks for, else nine tenths of the memory it reserves."""
    if max_memory is None and reserved is not None:
        return WorkerLimits(max_age, int(reserved * RESERVED_SHARE), is_reserved=True)
    return WorkerLimits(max_age, max_memory)


def read_own_memory() -> int:
    """Return bytes that only this process and its children have, not those shared with others.

    What is mapped from the object store is Ray's, and would be there without the worker too.
    """
    process = psutil.Process()
    return sum(map(_read_private, [process, *process.children(recursive=True)]))


def _read_private(process: psutil.Process) -> int:
    with suppress(psutil.Error):  # a child that has just ended
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0


class CallWatch:
    """Says so when a call takes longer than it may.

    Args:
        now: seconds from any fixed point.
        overrun: is told a sentence, on a thread of its own; mostly it does not return.
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
        """Watch the block.

        Args:
            seconds: that it may take; None: it is not watched.
            words: the sentence for when it takes longer.
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
        """Return the sentence of a call that takes too long."""
        with self._change:
            while self._due is None or self._now() < self._due:
                self._change.wait(None if self._due is None else self._due - self._now())
            self._due = None
            return self._words


def explain_overdue(tasks: int, seconds: float) -> str:
    """Explain what is said of a call that takes longer than `seconds`."""
    what = "a task" if tasks == 1 else f"a call of {tasks} tasks"
    return f"{what} took longer than the {seconds:g} s that `timeout` leaves it"
