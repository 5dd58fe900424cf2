"""A memory page that a worker shares with its driver: the current stage, and stacks on request.

A worker that hangs in C code holds the interpreter lock, and a dead worker can't respond. The
driver can read the page in both cases. On a signal, the interpreter's own handler appends the
stacks of all threads to the file, regardless of what the threads are doing. The module must not
depend on the meaning of calls or stacks.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

# The number of a call, and the index of the current stage in its chain.
_WORK = struct.Struct("!qq")
# Seconds that the call has waited for services, and the start of the current wait, or 0.
_WAIT = struct.Struct("!dd")
_SIZE = mmap.PAGESIZE
# A signal that the libraries of stages do not use.
_SIGNAL = signal.SIGRTMIN + 5
_MOST_BYTES = 1 << 16
_CRASH = "Fatal Python error: "  # how the interpreter's dump of a crash begins
# Number of polls for stacks, and their interval in seconds. Keep the total short, because the
# driver has other workers to serve.
_LOOKS, _POLL = 50, 0.02


class WorkerAddress(NamedTuple):
    """The location of a worker.

    Attributes:
        node: the id of its node.
        log: the file on that node with the worker's standard error.
        page: the path of the worker's page on that node.
    """

    node: str
    log: str = ""
    page: str = ""


class CallPosition(NamedTuple):
    """A worker's reported position in a call.

    Attributes:
        number: the number of the call.
        link: the index of the current stage in its chain.
        sources: description of the sources of the current tasks.
        waited: seconds that the call has waited for services.
    """

    number: int = 0
    link: int = 0
    sources: str = ""
    waited: float = 0.0


class WorkerPage:
    """A memory page, in the worker's process or in the driver.

    Args:
        handle: a file descriptor, which the page closes.

    Attributes:
        process: the worker's process id; None until known.

    Raises:
        OSError, ValueError: if the file is not a page.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.process: int | None = None
        self._memory = mmap.mmap(handle, _SIZE)

    @classmethod
    def make(cls) -> Self:
        """Create a new page in memory, without a file on disk."""
        handle = os.memfd_create("worker-page")
        os.ftruncate(handle, _SIZE)
        return cls(handle)

    @classmethod
    def find(cls, path: str) -> Self | None:
        """Open the page of another process on this machine. Return None if it can't be read."""
        try:
            page = cls(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            page.process = int(Path(path).parts[2])
        except (OSError, ValueError, IndexError):
            return None
        return page

    @property
    def path(self) -> str:
        """The path under which other processes of this machine can open the page."""
        return f"/proc/{os.getpid()}/fd/{self.handle}"

    def offer_stacks(self) -> None:
        """Install a signal handler that appends the stacks of this process to the page's file."""
        os.lseek(self.handle, 0, os.SEEK_END)
        faulthandler.register(_SIGNAL, file=self.handle, all_threads=True, chain=False)

    def record_crash(self) -> None:
        """Append the stack to the page's file if a fatal signal ends this process."""
        faulthandler.enable(file=self.handle, all_threads=False)

    def read_crash(self) -> str:
        """Return the stack that `record_crash` has written, or an empty string."""
        _, found, stack = _read(self.handle, _SIZE).rpartition(_CRASH)
        return stack if found else ""

    def note(self, call: int, link: int) -> None:
        """Record the current stage."""
        if _WORK.unpack_from(self._memory)[0] != call:
            _WAIT.pack_into(self._memory, _WORK.size, 0.0, 0.0)
        _WORK.pack_into(self._memory, 0, call, link)

    def note_wait(self, begun: float | None, now: float) -> None:
        """Record the start of a wait for a service, or the end of the wait if `begun` is None."""
        waited, since = _WAIT.unpack_from(self._memory, _WORK.size)
        waited += now - since if since else 0.0
        _WAIT.pack_into(self._memory, _WORK.size, waited, begun or 0.0)

    def read_wait(self, call: int, now: float) -> float:
        """Return how many seconds a call has waited for services.

        Args:
            now: the current time by the clock of `note_wait`, which all processes of a machine
                share.
        """
        waited, since = _WAIT.unpack_from(self._memory, _WORK.size)
        if _WORK.unpack_from(self._memory)[0] != call:
            return 0.0
        return float(waited + (now - since if since else 0.0))

    def read(self, call: int) -> int | None:
        """Return the index of a call's current stage, or None if the call has not begun."""
        number, link = _WORK.unpack_from(self._memory)
        return link if number == call else None

    def ask_stacks(self, sleep: Callable[[float], object]) -> str:
        """Return the stacks of all threads of the worker; empty if the worker does not respond.

        Args:
            sleep: waits for a number of seconds.
        """
        if self.process is None:
            return ""
        begun = os.fstat(self.handle).st_size
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.process, _SIGNAL)
            return self._await_stacks(begun, sleep)
        return ""

    def close(self) -> None:
        """Close the page in this process; the worker keeps its own."""
        self._memory.close()
        os.close(self.handle)

    def _await_stacks(self, begun: int, sleep: Callable[[float], object]) -> str:
        """Wait until stacks were written and the file has stopped growing."""
        size = begun
        for _ in range(_LOOKS):
            sleep(_POLL)
            before, size = size, os.fstat(self.handle).st_size
            if begun < size == before:
                break
        return _read(self.handle, begun)


def read_own_stacks() -> str:
    """Return the stacks of all threads of this process."""
    page = WorkerPage.make()
    try:
        begun = os.lseek(page.handle, 0, os.SEEK_END)
        faulthandler.dump_traceback(page.handle, all_threads=True)
        return _read(page.handle, begun)
    finally:
        page.close()


def _read(handle: int, begun: int) -> str:
    return os.pread(handle, _MOST_BYTES, begun).decode(errors="replace")
