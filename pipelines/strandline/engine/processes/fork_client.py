"""A driver's hold on the process that forks its workers: asks for them, hears how they ended.

It must not know what a worker is told, nor what its end means.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from strandline.engine.processes.fork_program import take_program
from strandline.engine.processes.fork_server import BEGUN, WORD
from strandline.engine.processes.frames import Message, MessageReader, send
from strandline.engine.processes.worker import WorkerTerms
from strandline.engine.worker.worker_page import WorkerPage
from strandline.plan.errors import StrandlineError
from strandline.storage.outputs.disk.own_handles import keep_own
from strandline_api.outcome.causes import Cause

_END_SECONDS = 10.0


class ForkServerLostError(StrandlineError):
    """The process that starts workers died under the run; what was committed is kept."""

    cause = Cause.KILLED


class Fork:
    """A worker's process.

    What it is sent goes by a thread: a worker whose stage keeps the interpreter reads nothing, and
    the driver must not wait for it. Nor does the driver wait for a worker that was stopped while it
    wrote.

    Attributes:
        line: leads to it.
        page: that it shares with this process.
        pid: None until it is known.
        exit_code: how it ended, a signal below zero; None: it has not, as far as is known.
    """

    def __init__(self, line: socket.socket, page: WorkerPage) -> None:
        keep_own(line.fileno())
        self.line, self.page = line, page
        self._reader = MessageReader(line)
        self.pid: int | None = None
        self.exit_code: int | None = None
        self._waiting: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._send_all, name="sender", daemon=True).start()

    def send(self, content: Any) -> None:  # noqa: ANN401 - plain lists and bytes
        """Send a message, when the ones before it are sent."""
        self._waiting.put(content)

    def read(self) -> Message | None:
        """Return its next message; None: the whole message has not arrived.

        Raises:
            EOFError, OSError: no message comes any more.
        """
        message = self._reader.read(socket.MSG_DONTWAIT)
        if message is None and self.exit_code is not None:
            raise EOFError  # a child of it may keep the other side open
        return message

    def kill(self) -> None:
        """End it at once; where its number is not known yet, by the end of its connection."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        if self.pid is not None and self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._waiting.put(None)

    def _send_all(self) -> None:
        with self.line:
            while (content := self._waiting.get()) is not None:
                with suppress(OSError):  # a worker that has died is heard of elsewhere
                    send(self.line, content)


class ForkServer:
    """The process, from its start to its end."""

    def __init__(self, terms: WorkerTerms) -> None:
        self._program = take_program()
        self._control = self._program.control
        self._begun: deque[Fork] = deque()
        self._forks: dict[int, Fork] = {}
        self._words = bytearray()
        with suppress(OSError):  # the program has died, which the next read shows
            send(self._control, sys.path)  # where stages are, which a driver may learn late
            send(self._control, terms)

    def fileno(self) -> int:
        """Return the descriptor that can be read when there is news."""
        return self._control.fileno()

    def fork(self, chain: int) -> Fork:
        """Return a new worker of a chain, by its number; it is not waited for.

        Raises:
            ForkServerLostError: the process has died.
        """
        page = WorkerPage.make()
        keep_own(page.handle)
        ours, theirs = socket.socketpair()
        with theirs:
            shared = [theirs.fileno(), page.handle]
            try:
                socket.send_fds(self._control, [bytes([chain])], shared)
            except OSError:
                raise _explain_loss() from None
        fork = Fork(ours, page)
        self._begun.append(fork)
        return fork

    def read_words(self) -> None:
        """Hear which processes have begun and which have ended, as far as there is news.

        Raises:
            ForkServerLostError: the process has died.
        """
        try:
            part = self._control.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # what was there was read while the end of a worker was waited for
        if not part:
            raise _explain_loss()
        self._words += part
        whole = len(self._words) // WORD.size * WORD.size
        for pid, code in WORD.iter_unpack(self._words[:whole]):
            self._note(pid, code)
        del self._words[:whole]

    def await_end(self, fork: Fork) -> int | None:
        """Return how a worker has ended that can't be reached; None: that is not known."""
        while fork.exit_code is None:
            ready, _, _ = select.select([self._control], [], [], _END_SECONDS)
            if not ready:
                return None
            self.read_words()
        return fork.exit_code

    def stop(self) -> None:
        """End the process, and all workers with it."""
        self._program.end()

    def _note(self, pid: int, code: int) -> None:
        if code == BEGUN:
            fork = self._begun.popleft()  # in the order in which they were asked for
            fork.pid = fork.page.process = pid
            self._forks[pid] = fork
        else:
            self._forks.pop(pid).exit_code = code


def _explain_loss() -> ForkServerLostError:
    return ForkServerLostError("the process that starts workers was killed; run again to go on")


def explain_end(code: int | None) -> str:
    """Return in words what a worker's process has died of."""
    if code is None:
        return "its process can't be reached"
    if code >= 0:
        return f"its process exited: {code}"
    if code == -signal.SIGKILL:
        return "its process was killed (SIGKILL)"
    if code == -signal.SIGTERM:
        return "its process was ended by SIGTERM"
    try:
        return f"its process died of {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"its process died of signal {-code}"
