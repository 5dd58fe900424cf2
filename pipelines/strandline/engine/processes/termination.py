"""SIGTERM to the processes that a driver forks: a request to stop, or the end of one worker.

Service managers and batch systems send SIGTERM to each process of a run. That is one request to
stop, and the driver's to answer, so workers go on until the driver ends them. A SIGTERM to a worker
alone ends that worker, as its sender expects. This room must not know what a worker does.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from types import FrameType

_WAIT_SECONDS = 0.5  # the others have received it by then


class WorkerTermination:
    """Is shared by the process that forks workers and by its workers."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)
        self._is_alone = self._is_here = False

    def is_received(self) -> bool:
        """Return whether this worker has received it, or the process that has forked the worker."""
        return self._is_here or bool(self._shared[0])

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """Note that the process that forks workers has received it."""
        self._shared[0] = 1

    def handle_in_worker(self) -> None:
        """Handle it in a worker; its own children end at once, as programs do."""
        signal.signal(signal.SIGTERM, self._receive)
        os.register_at_fork(after_in_child=self._restore)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._is_here = True
        if self._is_alone:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        timer = threading.Timer(_WAIT_SECONDS, self._judge, [number])
        timer.daemon = True
        timer.start()

    def _judge(self, number: int) -> None:
        if not self._shared[0]:
            self._is_alone = True
            main = threading.main_thread().ident  # only that thread may change what a signal does
            assert main is not None  # a main thread runs
            signal.pthread_kill(main, number)

    def _restore(self) -> None:
        if signal.getsignal(signal.SIGTERM) == self._receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
