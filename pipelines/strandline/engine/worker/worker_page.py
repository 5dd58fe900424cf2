"""A page of memory that a worker shares with its driver: the stage at work, and stacks on request.

A worker that hangs in C code keeps the interpreter, and a dead one says nothing. The driver reads
the page all the same, and the interpreter's own handler of a signal writes the stacks of all
threads behind it, whatever they do. Calls and the meaning of stacks are unknown here.
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

# The number of a call, and that of the stage at work in its chain.
_WORK = struct.Struct("!qq")
# Seconds of the call in which its stages waited for services, and since when they wait, or 0.
_WAIT = struct.Struct("!dd")
_SIZE = mmap.PAGESIZE
# No library that stages use takes this one.
_SIGNAL = signal.SIGRTMIN + 5
_MOST_BYTES = 1 << 16
# A worker that can answer does so within a moment; the driver has others to look after.
_LOOKS, _POLL = 50, 0.02


class WorkerAddress(NamedTuple):
    """Where a worker runs.

    Attributes:
        node: the id of its node.
        log: the file there that takes what it prints on standard error.
        page: where its page is found there.
    """

    node: str
    log: str = ""
    page: str = ""


class Located(NamedTuple):
    """Where a worker was in a call when it was asked.

    Attributes:
        number: of the call.
        link: the number of the stage in its chain.
        sources: that it was over, in words.
        waited: seconds of the call in which its stages waited for services.
    """

    number: int = 0
    link: int = 0
    sources: str = ""
    waited: float = 0.0


class WorkerPage:
    """One page; of a worker's process, or of its driver.

    Args:
        handle: a descriptor of the file, which the page closes.

    Attributes:
        process: the worker; None until it is known.

    Raises:
        OSError, ValueError: the file is no page.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.process: int | None = None
        self._memory = mmap.mmap(handle, _SIZE)

    @classmethod
    def make(cls) -> Self:
        """Return a new page, which no disk has a file for."""
        handle = os.memfd_create("worker-page")
        os.ftruncate(handle, _SIZE)
        return cls(handle)

    @classmethod
    def find(cls, path: str) -> Self | None:
        """Return the page of another process of this machine; None: it can't be read."""
        try:
            page = cls(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            page.process = int(Path(path).parts[2])
        except (OSError, ValueError, IndexError):
            return None
        return page

    @property
    def path(self) -> str:
        """Return where other processes of this machine find it."""
        return f"/proc/{os.getpid()}/fd/{self.handle}"

    def offer_stacks(self) -> None:
        """Write the stacks of this process behind the page whenever it is asked for them."""
        os.lseek(self.handle, 0, os.SEEK_END)
        faulthandler.register(_SIGNAL, file=self.handle, all_threads=True, chain=False)

    def note(self, call: int, link: int) -> None:
        """Note the stage at work."""
        if _WORK.unpack_from(self._memory)[0] != call:
            _WAIT.pack_into(self._memory, _WORK.size, 0.0, 0.0)
        _WORK.pack_into(self._memory, 0, call, link)

    def note_wait(self, begun: float | None, now: float) -> None:
        """Note that the stage at work waits for a service since that time; None: it goes on."""
        waited, since = _WAIT.unpack_from(self._memory, _WORK.size)
        waited += now - since if since else 0.0
        _WAIT.pack_into(self._memory, _WORK.size, waited, begun or 0.0)

    def read_wait(self, call: int, now: float) -> float:
        """Return the seconds that stages have waited in a call, by the clock of this machine."""
        waited, since = _WAIT.unpack_from(self._memory, _WORK.size)
        if _WORK.unpack_from(self._memory)[0] != call:
            return 0.0
        return float(waited + (now - since if since else 0.0))

    def read(self, call: int) -> int | None:
        """Return the number of the stage at work in a call; None: it was not begun."""
        number, link = _WORK.unpack_from(self._memory)
        return link if number == call else None

    def ask_stacks(self, sleep: Callable[[float], object]) -> str:
        """Return the stacks of all threads of the page's worker; empty where it gives none.

        Args:
            sleep: waits for seconds.
        """
        if self.process is None:
            return ""
        begun = os.fstat(self.handle).st_size
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.process, _SIGNAL)
            return self._await_stacks(begun, sleep)
        return ""

    def close(self) -> None:
        """Let the page go; the worker keeps its own."""
        self._memory.close()
        os.close(self.handle)

    def _await_stacks(self, begun: int, sleep: Callable[[float], object]) -> str:
        """Wait for what is written, and for a moment in which no more is."""
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
