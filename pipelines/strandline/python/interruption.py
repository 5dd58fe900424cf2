"""What Ctrl-C, or a notebook's stop button, means to a run in the caller's own process.

The first one lets work in flight finish and keeps it; the second ends the run where it is. Either
way the caller gets a KeyboardInterrupt, and everything that was started has been ended by then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SENTENCE = "stopping: letting work in flight finish; interrupt again to stop at once"
MESSAGE = "the run was stopped; what is finished is kept, and `run` goes on with the rest"


class RunInterruption:
    """Turns the first interrupt into a flag and the second into an exception.

    Args:
        announce: shows a sentence.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._is_asked = False

    def is_asked(self) -> bool:
        """Return whether an interrupt has come."""
        return self._is_asked

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        """Take an interrupt."""
        if self._is_asked:
            # From here on the keyboard means what it always does: a stage must not take it for an
            # error of its own, nor clean-up for a third request.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt
        self._is_asked = True
        self._announce(SENTENCE)


@contextmanager
def interruptible(announce: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Listen to interrupts as long as the block runs; yields what says whether to stop.

    Raises:
        KeyboardInterrupt: one has come, at the end of the block.
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
    """Return False where another handler listens, or Python would not let this thread do so."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
