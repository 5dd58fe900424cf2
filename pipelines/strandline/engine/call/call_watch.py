"""Watches a call in this very process, which can't be ended while it hangs but with the process.

It must not know what ends the process, nor what is left behind for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
        """The sentence of a call that takes too long."""
        with self._change:
            while self._due is None or self._now() < self._due:
                self._change.wait(None if self._due is None else self._due - self._now())
            self._due = None
            return self._words


def explain_overdue(tasks: int, seconds: float) -> str:
    """What is said of a call that takes longer than `seconds`."""
    what = "a task" if tasks == 1 else f"a call of {tasks} tasks"
    return f"{what} took longer than the {seconds:g} s that `timeout` leaves it"
