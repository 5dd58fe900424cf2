"""The driver's side of the fork server: requests workers, and learns how they ended.

Messages to a worker are opaque here, and the caller decides about the consequences of its end.
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

_END_SECONDS = 10.0  # seconds for news of an end


class ForkServerLostError(StrandlineError):
    """The process that starts workers died during the run; committed work is kept."""

    cause = Cause.KILLED


class Fork:
    """A worker's process.

    A thread sends the messages, because the driver must not wait for a worker that reads nothing
    while its stage holds the interpreter. Reads do not block either: a worker may be stopped in the
    middle of a message.

    Attributes:
        line: socket to the worker.
        page: memory page shared with this process.
        pid: process id; None until known.
        exit_code: exit code, or a negative signal number; None if no end was reported.
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
        """Send a message after all previous messages."""
        self._waiting.put(content)

    def read(self) -> Message | None:
        """Return the next message, or None if the whole message has not arrived.

        Raises:
            EOFError, OSError: if no further message can arrive.
        """
        message = self._reader.read(socket.MSG_DONTWAIT)
        if message is None and self.exit_code is not None:
            raise EOFError  # its children may keep the other side open
        return message

    def kill(self) -> None:
        """End the worker at once. Without a process id, closing the connection ends it."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        if self.pid is not None and self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        # `None` ends the thread that sends.
        self._waiting.put(None)

    def _send_all(self) -> None:
        with self.line:
            while (content := self._waiting.get()) is not None:
                with suppress(OSError):  # a dead worker is detected elsewhere
                    send(self.line, content)


class ForkServer:
    """The process that forks workers, from its start to its end."""

    def __init__(self, terms: WorkerTerms) -> None:
        self._program = take_program()
        self._control = self._program.control
        self._begun: deque[Fork] = deque()
        self._forks: dict[int, Fork] = {}
        self._words = bytearray()
        with suppress(OSError):  # the program has died, which the next read shows
            send(self._control, sys.path)  # the path of stages, which a driver may learn late
            send(self._control, terms)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is news."""
        return self._control.fileno()

    def fork(self, chain: int) -> Fork:
        """Request a new worker of a chain, by the number of the chain, without waiting for it.

        Raises:
            ForkServerLostError: if the process has died.
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
        """Read which workers have begun and which have ended, as far as there is news.

        Raises:
            ForkServerLostError: if the process has died.
        """
        try:
            part = self._control.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # a wait for the end of a worker has read the news
        if not part:
            raise _explain_loss()
        self._words += part
        # News may arrive in parts, so keep an incomplete word for the next read.
        whole = len(self._words) // WORD.size * WORD.size
        for pid, code in WORD.iter_unpack(self._words[:whole]):
            self._note(pid, code)
        del self._words[:whole]

    def await_end(self, fork: Fork) -> int | None:
        """Return how an unreachable worker ended, or None if unknown."""
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
            fork = self._begun.popleft()  # in the order of the requests
            fork.pid = fork.page.process = pid
            self._forks[pid] = fork
        else:
            self._forks.pop(pid).exit_code = code


def _explain_loss() -> ForkServerLostError:
    return ForkServerLostError("the process that starts workers was killed; run again to continue")


def explain_end(code: int | None) -> str:
    """Explain in words what a worker's process died of."""
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
