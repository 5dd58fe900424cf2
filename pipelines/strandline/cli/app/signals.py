"""What Ctrl-C and a request to end mean: stop well the first time, at once the second.

It knows signals and a flag; the flag's readers are not its business.
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
    """The run was ended where it can't listen to a request to stop (exit code 75)."""

    def __init__(self) -> None:
        super().__init__("the run was ended while it started; run it again to go on")


class Interruption:
    """Turns the first signal into a flag and the second into the end of the process.

    Which signals are the same request, `Stop` says: Ray's `job stop` and systemd send SIGTERM to
    each process of a run, and the process that started this one passes it on.

    Args:
        announce: shows a sentence.
        then: is called once, when it is first asked.
        leave: ends the process with a code, at once.
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
        """Return whether a signal has come."""
        return self._stop.is_asked()

    def arm(self) -> None:
        """Listen; to be repeated where a library may have put its own handler in place."""
        for number in SIGNALS:
            if signal.getsignal(number) != self.receive:
                signal.signal(number, self.receive)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen as long as the block runs."""
        old = {number: signal.getsignal(number) for number in SIGNALS}
        self.arm()
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        if not self._stop.ask(number):
            return
        if self._stop.times > 1:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            self._leave(128 + number)
            return
        self._announce(SENTENCE)
        self._then()

    def ask(self) -> None:
        """Ask as SIGTERM does, without a word."""
        if self._stop.ask() and self._stop.times == 1:
            self._then()
