"""A program that loads the stages' modules once, and forks workers that inherit the modules.

The program runs no threads and holds no resource of the driver, so forks are safe. The program ends
with its driver, and then ends all workers and the processes that their stages started. Messages to
a worker are opaque.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa

from strandline.engine.call.descendants import (
    adopt_orphans,
    end_children,
    end_with_parent,
    list_children,
)
from strandline.engine.processes.frames import receive
from strandline.engine.processes.termination import WorkerTermination
from strandline.engine.processes.worker import WorkerTerms, load_chain, work
from strandline.engine.worker.worker_page import WorkerPage
from strandline.plan.errors import StrandlineError
from strandline.storage.outputs.disk.own_handles import keep_own

# A report: process id, and exit code or negative signal number.
WORD = struct.Struct("!ii")
# In place of an exit code: the process was forked, or all workers of the run have ended.
BEGUN, DONE = 1 << 16, 1 << 17
NEXT = b"\xff"  # in place of the index of a chain: the run is over, and another one may follow
_LAST = frozenset({b"", NEXT})
LOOK_SECONDS = 5.0  # seconds between searches for daemons


def main(control: int, parent: int) -> None:
    """Serve a driver until its end.

    Args:
        control: the descriptor of a socket. For each run, the driver sends a byte with its standard
            error, the module search path, and the terms. For each worker, the driver then sends one
            byte, the index of the chain, with the descriptors of the worker's socket and page.
            `NEXT` ends the workers of a run, which is confirmed by `DONE`.
        parent: id of the driver's process.
    """
    termination = WorkerTermination()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles Ctrl-C from the terminal
    signal.signal(signal.SIGTERM, termination.note)
    adopt_orphans()
    pa.array([])  # Arrow's first array imports pandas, which is slow
    with socket.socket(fileno=keep_own(control)) as driver, suppress(OSError, EOFError):
        end = _watch_end(parent)
        while True:
            _take_streams(driver)
            sys.path[:] = receive(driver).content
            terms: WorkerTerms = receive(driver).content
            if not _Forker(driver, terms, termination, end).serve():
                return
            driver.sendall(WORD.pack(0, DONE))


def _take_streams(driver: socket.socket) -> None:
    """Write to the driver's standard error."""
    _, received, _, _ = socket.recv_fds(driver, 1, 1)
    for number in received:
        os.dup2(number, 2)
        os.close(number)
    with suppress(OSError):  # standard error may be closed
        os.dup2(2, 1)  # stages may print, but only the command may write to standard output


def _watch_end(parent: int) -> list[int]:
    """Return descriptors that become readable once the driver is dead.

    The driver's socket is not enough: its end is not visible while a child of the driver has a copy
    of the socket. The list is empty if the kernel does not support such descriptors.

    Raises:
        EOFError: if the driver is dead.
    """
    end = []
    with suppress(OSError):
        end = [os.pidfd_open(parent)]
    # Check again, because the driver may have died before the descriptor was opened.
    if os.getppid() != parent:
        raise EOFError
    return end


class _Forker:
    def __init__(
        self,
        driver: socket.socket,
        terms: WorkerTerms,
        termination: WorkerTermination,
        end: list[int],
    ) -> None:
        self._driver = driver
        self._terms = terms
        self._termination = termination
        self._end = end
        self._loaded = [_load(chain) for chain in terms.chains]
        self._children: set[int] = set()
        self._daemons: set[int] = set()  # processes that workers left behind, possibly still in use
        self._pid = os.getpid()
        # The interpreter writes to this socket when a child ends, so that the server can wait for
        # requests and for the end of children at the same time.
        self._endings, self._bell = socket.socketpair()
        self._bell.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        # Freeze loaded objects: a garbage collection in a worker would copy all their memory. A
        # collection before would take a quarter of a second, and find next to nothing.
        gc.freeze()

    def serve(self) -> bool:
        """Serve one run. Return whether the driver has another run."""
        watched: list[Any] = [self._driver, self._endings, *self._end]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], LOOK_SECONDS)
                if not ready:
                    self._daemons = self._find_daemons()
                if self._endings in ready:
                    self._endings.recv(4096)
                    self._report_endings()
                if any(end in ready for end in self._end):
                    return False
                if self._driver in ready and (word := self._take()) in _LAST:
                    return word == NEXT
        finally:
            signal.set_wakeup_fd(-1)  # a child may still end after the socket is closed
            for each in (self._endings, self._bell):
                each.close()
            end_children(list_children)

    def _take(self) -> bytes:
        """Fork the requested worker. Return the driver's byte, empty if it closed the socket."""
        word, descriptors, _, _ = socket.recv_fds(self._driver, 1, 2)
        if word in _LAST:
            return word
        child = os.fork()
        if not child:
            self._become_worker(word[0], *descriptors)
        self._children.add(child)
        # Close these descriptors, of which the child has copies.
        for descriptor in descriptors:
            os.close(descriptor)
        self._driver.sendall(WORD.pack(child, BEGUN))
        return word

    def _report_endings(self) -> None:
        with suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if not child:
                    return
                if child in self._children:
                    self._children.discard(child)
                    end_children(partial(self._find_left, child))
                    self._driver.sendall(WORD.pack(child, os.waitstatus_to_exitcode(status)))

    def _find_left(self, worker: int) -> set[int]:
        """Return the leftovers of a dead worker: its session, and orphans that are not daemons."""
        orphans = self._find_orphans()
        return {
            child
            for child, session in orphans.items()
            if session == worker or child not in self._daemons
        }

    def _find_daemons(self) -> set[int]:
        """Return daemons: orphans that left a worker's session while the worker was alive.

        Daemons may serve all workers of this machine, so they run until the run ends.
        """
        return set(self._find_orphans())

    def _find_orphans(self) -> dict[int, int]:
        """Return the sessions of children that are neither workers nor in a worker's session."""
        return {
            child: session
            for child, session in list_children().items()
            if child not in self._children and session not in self._children
        }

    def _become_worker(self, chain: int, descriptor: int, page: int) -> None:
        """Run as a worker until the process ends. Never return: the caller serves the driver."""
        code = 1
        try:
            end_with_parent(self._pid)
            os.setsid()  # the session identifies processes started by stages
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._termination.handle_in_worker()
            for each in (self._driver, self._endings, self._bell):
                each.close()
            for end in self._end:
                os.close(end)
            _renew_randomness()
            line = socket.socket(fileno=keep_own(descriptor))
            load = partial(_get, self._loaded[chain])
            shared = WorkerPage(keep_own(page))
            work(line, self._terms, chain, load, self._termination.is_received, shared)
            code = 0
        except OSError:  # the driver is dead
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _renew_randomness() -> None:
    """Reseed NumPy's global generator: forked workers would share its state.

    Python reseeds its own generators.
    """
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _load(chain: Any) -> Any:  # noqa: ANN401 - see below
    """Load the stages of a chain, or return the error for its workers to report."""
    try:
        return load_chain(chain)
    except StrandlineError as error:
        return error


def _get(loaded: Any) -> Any:  # noqa: ANN401 - what `_load` returned
    if isinstance(loaded, StrandlineError):
        raise loaded
    return loaded
