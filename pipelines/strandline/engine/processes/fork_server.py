"""A program that has loaded what stages need, and forks workers that need not load it again.

No thread runs in it and nothing of the driver's is open, so that a fork is safe. It ends with its
driver, and all workers with it. It must not know what a worker is asked.
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
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from strandline.engine.processes.frames import receive
from strandline.engine.processes.worker import WorkerTerms, load_chain, work
from strandline.plan.errors import StrandlineError

# A process, and how it ended: its exit code, or the number of a signal below zero.
WORD = struct.Struct("!ii")
BEGUN = 1 << 16  # in the place of an exit code: it was forked


def main(control: int) -> None:
    """Serve a driver to its end.

    Args:
        control: the descriptor of a socket, on which come where modules are and the terms, then one
            byte for each worker, the number of its chain, with the descriptor of its own socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is the driver's
    with suppress(OSError):  # the driver may have none
        os.dup2(2, 1)  # stages print, and standard output is for what the command has to say
    pa.array([])  # Arrow looks for pandas with its first array, which takes as long as all else
    with socket.socket(fileno=control) as driver, suppress(OSError, EOFError):
        connection = Connection(os.dup(control))
        sys.path[:] = receive(connection).content
        terms: WorkerTerms = receive(connection).content
        connection.close()
        _Forker(driver, terms).serve()


class _Forker:
    def __init__(self, driver: socket.socket, terms: WorkerTerms) -> None:
        self._driver = driver
        self._terms = terms
        self._loaded = [_load(chain) for chain in terms.chains]
        self._children: set[int] = set()
        # Written to by the interpreter as a child ends, so that one wait is for both.
        self._endings, self._bell = socket.socketpair()
        self._bell.settimeout(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        # A search for garbage would copy all that is loaded by now into each worker.
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        try:
            while True:
                ready, _, _ = select.select([self._driver, self._endings], [], [])
                if self._endings in ready:
                    self._endings.recv(4096)
                    self._report_endings()
                if self._driver in ready and not self._take():
                    return
        finally:
            signal.set_wakeup_fd(-1)  # a child may end when its other side is closed already
            for child in self._children:
                os.kill(child, signal.SIGKILL)  # not waited for yet, so the number is a child's
                os.waitpid(child, 0)

    def _take(self) -> bool:
        """Fork the worker that is asked for; False where the driver has gone."""
        word, descriptors, _, _ = socket.recv_fds(self._driver, 1, 1)
        if not word:
            return False
        child = os.fork()
        if not child:
            self._become_worker(word[0], descriptors[0])
        self._children.add(child)
        os.close(descriptors[0])
        self._driver.sendall(WORD.pack(child, BEGUN))
        return True

    def _report_endings(self) -> None:
        for child in list(self._children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                self._children.discard(child)
                self._driver.sendall(WORD.pack(child, os.waitstatus_to_exitcode(status)))

    def _become_worker(self, chain: int, descriptor: int) -> None:
        """Work to the end of this process; never returns, or it would serve the driver too."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (self._driver, self._endings, self._bell):
                each.close()
            work(Connection(descriptor), self._terms, chain, partial(_get, self._loaded[chain]))
            code = 0
        except OSError:  # the driver has gone
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _load(chain: Any) -> Any:  # noqa: ANN401 - see below
    """Return the stages of a chain, or why they can't be loaded, for its workers to say."""
    try:
        return load_chain(chain)
    except StrandlineError as error:
        return error


def _get(loaded: Any) -> Any:  # noqa: ANN401 - what `_load` returned
    if isinstance(loaded, StrandlineError):
        raise loaded
    return loaded
