"""The driver's side of the fork server: requests workers, and reads how they ended.

Messages to a worker are opaque, and the caller decides how to handle the end of a worker.
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

from strandline.engine.processes.fork_program import is_kept, keep_program, take_program
from strandline.engine.processes.fork_server import BEGUN, DONE, NEXT, WORD
from strandline.engine.processes.frames import Message, MessageReader, send
from strandline.engine.processes.worker import WorkerTerms
from strandline.engine.worker.worker_page import WorkerPage
from strandline.plan.errors import StrandlineError
from strandline.storage.outputs.disk.own_handles import keep_own
from strandline_api.outcome.causes import Cause

_END_SECONDS = 10.0  # seconds to wait for the report of a worker's end
_STDERR = 2


class ForkServerLostError(StrandlineError):
    """Raised if the process that starts workers died during the run. Committed work is kept."""

    cause = Cause.KILLED


class Fork:
    """A worker's process.

    A thread sends the messages, because the driver must not wait for a worker that does not read
    while its stage holds the interpreter. Reads do not block either, because a worker may be
    stopped in the middle of a message.

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
        """Queue a message to be sent after all previous messages."""
        self._waiting.put(content)

    def read(self) -> Message | None:
        """Return the next message, or None if no complete message has arrived.

        Raises:
            EOFError, OSError: if no further message can arrive.
        """
        message = self._reader.read(socket.MSG_DONTWAIT)
        if message is None and self.exit_code is not None:
            raise EOFError  # the worker has ended, but its children may keep the socket open
        return message

    def kill(self) -> None:
        """Kill the worker. If its process id is unknown, closing the connection ends it."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        if self.pid is not None and self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        # End the sending thread, which stops on `None`.
        self._waiting.put(None)

    def _send_all(self) -> None:
        with self.line:
            while (content := self._waiting.get()) is not None:
                with suppress(OSError):  # the end of a worker is detected elsewhere
                    send(self.line, content)


class ForkServer:
    """The process that forks workers, from its start to its end."""

    def __init__(self, terms: WorkerTerms) -> None:
        self._program = take_program()
        self._control = self._program.control
        self._begun: deque[Fork] = deque()
        self._forks: dict[int, Fork] = {}
        self._words = bytearray()
        self._is_done = False
        # The program may have started before this process got its standard error.
        with suppress(OSError):  # if the program has died, the next read raises the error
            socket.send_fds(self._control, [b"\n"], _list_streams())
            send(self._control, sys.path)  # the driver may have extended the path after the start
            send(self._control, terms)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a report arrives."""
        return self._control.fileno()

    def fork(self, chain: int) -> Fork:
        """Request a new worker of a chain, without waiting for the worker.

        Args:
            chain: index of the chain.

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
        """Read the reports that have arrived: which workers have started, and which have ended.

        Raises:
            ForkServerLostError: if the process has died.
        """
        try:
            part = self._control.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # `await_end` has already read the reports
        if not part:
            raise _explain_loss()
        self._words += part
        # The last report may be incomplete, so keep its bytes for the next read.
        whole = len(self._words) // WORD.size * WORD.size
        for pid, code in WORD.iter_unpack(self._words[:whole]):
            self._note(pid, code)
        del self._words[:whole]

    def await_end(self, fork: Fork) -> int | None:
        """Wait for an unreachable worker to end. Return its exit code, or None if unknown."""
        while fork.exit_code is None:
            ready, _, _ = select.select([self._control], [], [], _END_SECONDS)
            if not ready:
                return None
            self.read_words()
        return fork.exit_code

    def stop(self) -> None:
        """End all workers, and also the process unless another run can use it."""
        if not (is_kept() and self._finish()):
            self._program.end()
            return
        keep_program(self._program)

    def _finish(self) -> bool:
        """End all workers. Return False if the process does not confirm it."""
        with suppress(OSError, ForkServerLostError):
            self._control.sendall(NEXT)
            while select.select([self._control], [], [], _END_SECONDS)[0]:
                self.read_words()
                if self._is_done:
                    return True
        return False

    def _note(self, pid: int, code: int) -> None:
        if code == DONE:
            self._is_done = True
        elif code == BEGUN:
            fork = self._begun.popleft()  # reports of starts arrive in the order of the requests
            fork.pid = fork.page.process = pid
            self._forks[pid] = fork
        else:
            self._forks.pop(pid).exit_code = code


def _explain_loss() -> ForkServerLostError:
    return ForkServerLostError(
        "the process that starts workers was killed; run the pipeline again to continue"
    )


def explain_end(code: int | None) -> str:
    """Describe how a worker's process ended."""
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


def _list_streams() -> list[int]:
    """Return the descriptor of standard error, unless it is closed."""
    try:
        os.fstat(_STDERR)
    except OSError:
        return []
    return [_STDERR]
