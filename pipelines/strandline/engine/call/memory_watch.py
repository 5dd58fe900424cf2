"""When a worker has lived long enough: by its age, or by the memory that it has not given back.

It is asked after each call, so that a worker is replaced between two of them, before the kernel
takes it in the midst of one. It knows neither whose worker it is nor who replaces it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import psutil

LOOK_SECONDS = 0.5
RESERVED_SHARE = 0.9


class Limits(NamedTuple):
    """How old and how large a worker may grow.

    Attributes:
        seconds: since it was ready; None: any age.
        memory: bytes of its own and its children's; None: any number.
        is_reserved: nobody has asked for the memory's limit, it is what the stage reserves; so one
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
        self, limits: Limits, now: Callable[[], float], read_memory: Callable[[], int]
    ) -> None:
        self._limits = limits
        self._now = now
        self._read_memory = read_memory
        self._begun = now()
        self._due = self._begun
        self._is_first = True

    def look(self) -> str:
        """Why the worker should be replaced: `age`, `memory`, or empty."""
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


def choose_limits(max_age: float | None, max_memory: int | None, reserved: int | None) -> Limits:
    """A stage's limits: what it asks for, else nine tenths of the memory that it reserves."""
    if max_memory is None and reserved is not None:
        return Limits(max_age, int(reserved * RESERVED_SHARE), is_reserved=True)
    return Limits(max_age, max_memory)


def read_own_memory() -> int:
    """Bytes that only this process and its children have, not those shared with others.

    What is mapped from the object store is Ray's, and would be there without the worker too.
    """
    process = psutil.Process()
    return sum(map(_read_private, [process, *process.children(recursive=True)]))


def _read_private(process: psutil.Process) -> int:
    with suppress(psutil.Error):  # a child that has just ended
        memory = process.memory_info()
        return int(memory.rss - getattr(memory, "shared", 0))
    return 0
