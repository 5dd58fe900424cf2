"""Handles Ctrl-C and SIGTERM: the first request stops cleanly, the second stops immediately.

The module sets a flag, and must not depend on the readers of the flag.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from strandline.run.supervise.stop import Stop

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SENTENCE = "stopping: letting work in flight finish; press again to stop at once"


class StoppedAtOnceError(Exception):
    """Raised if a request to stop ended the run during its start (exit code 75)."""

    def __init__(self) -> None:
        super().__init__("the run was stopped during its start; run it again to continue")


class Interruption:
    """Turns the first signal into a flag, and ends the process on the second signal.

    Several signals may be the same request, and `Stop` counts them once: Ray's `job stop` and
    systemd send SIGTERM to each process of a run, and the parent forwards its SIGTERM to this
    process.

    Args:
        announce: shows a sentence.
        then: called once, at the first request.
        leave: ends the process immediately with an exit code.
    """

    def __init__(
        self,
        announce: Callable[[str], None],
        then: Callable[[], None] = lambda: None,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._announce = announce
        self._then = then
        self._leave = leave
        self._stop = Stop()

    def is_asked(self) -> bool:
        """Return whether a signal was received."""
        return self._stop.is_asked()

    def arm(self) -> None:
        """Install the signal handlers. Call this again after a library may have replaced them."""
        for number in SIGNALS:
            # Compare with `!=`: every access to a method creates a new object, so `is not` would
            # always hold.
            if signal.getsignal(number) != self.receive:
                signal.signal(number, self.receive)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals until the block ends."""
        old = {number: signal.getsignal(number) for number in SIGNALS}
        self.arm()
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Process a signal."""
        if not self._stop.ask(number):
            return
        if self._stop.times > 1:
            # Flush here because `os._exit` does not flush streams.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            # If a signal ends a process, shells report 128 plus the signal's number.
            self._leave(128 + number)
            return
        self._announce(SENTENCE)
        self._then()

    def ask(self) -> None:
        """Request a stop as SIGTERM does, without an announcement."""
        if self._stop.ask() and self._stop.times == 1:
            self._then()
