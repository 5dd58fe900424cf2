"""Handles SIGTERM in the processes that a driver forks: as a stop of the run, or of one worker.

Service managers and batch systems send SIGTERM to every process of a run. In this case, the driver
handles the signal, and workers continue until the driver ends them. If only one worker receives
SIGTERM, that worker ends, as the sender expects. The module must not depend on the work of a
worker.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from types import FrameType

_WAIT_SECONDS = 0.5  # seconds until the other processes must have received the signal


class WorkerTermination:
    """State shared by the process that forks workers and by its workers."""

    def __init__(self) -> None:
        # Use anonymous shared memory, which forked workers inherit.
        self._shared = mmap.mmap(-1, 1)
        self._is_alone = self._is_here = False

    def is_received(self) -> bool:
        """Return whether this worker or its fork server has received the signal."""
        return self._is_here or bool(self._shared[0])

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Record that the fork server has received the signal."""
        self._shared[0] = 1

    def handle_in_worker(self) -> None:
        """Install the handler in a worker. Children of the worker keep the default action."""
        signal.signal(signal.SIGTERM, self._receive)
        os.register_at_fork(after_in_child=self._restore)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._is_here = True
        if self._is_alone:
            # Restore the default action, so that the worker ends as if the signal were unhandled.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        timer = threading.Timer(_WAIT_SECONDS, self._judge, [number])
        timer.daemon = True
        timer.start()

    def _judge(self, number: int) -> None:
        if not self._shared[0]:
            self._is_alone = True
            main = threading.main_thread().ident  # only the main thread may change signal handlers
            assert main is not None  # the main thread is alive
            signal.pthread_kill(main, number)

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
