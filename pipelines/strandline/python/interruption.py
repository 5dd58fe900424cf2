"""Handles Ctrl-C, or a notebook's stop button, during a run in the caller's own process.

After the first interrupt, work in flight is finished and kept; the second interrupt ends the run
immediately. In both cases the caller gets a KeyboardInterrupt after everything that the run started
has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SENTENCE = "stopping: letting work in flight finish; interrupt again to stop at once"
MESSAGE = "the run was stopped; `run` keeps finished sources and continues with the others"


class RunInterruption:
    """Turns the first interrupt into a flag and the second into an exception.

    Args:
        announce: shows a sentence to the user.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._is_asked = False

    def is_asked(self) -> bool:
        """Return whether an interrupt was received."""
        return self._is_asked

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        """Process an interrupt."""
        if self._is_asked:
            # Restore the default handler: only then does the engine attribute the exception to the
            # user instead of the stage. Also, an interrupt during clean-up must not call this
            # method.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        self._is_asked = True
        self._announce(SENTENCE)


@contextmanager
def interruptible(announce: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Handle interrupts while the block runs; yield a function that returns whether to stop.

    Raises:
        KeyboardInterrupt: at the end of the block, after an interrupt.
    """
    if not _is_ours():
        yield lambda: False
        return
    interruption = RunInterruption(announce)
    signal.signal(signal.SIGINT, interruption.receive)
    try:
        yield interruption.is_asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interruption.is_asked():
        raise KeyboardInterrupt(MESSAGE)


def _is_ours() -> bool:
    """Return whether the default handler is active and this thread may replace it."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
