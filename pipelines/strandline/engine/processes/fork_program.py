"""Starts the process that forks workers, possibly before the driver has planned their work.

Loading the modules takes the process as long as the driver needs for all other preparations.
Therefore, a driver that may fork starts the process first, and this module imports nothing that is
slow to load. Messages to a worker are opaque.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from strandline.engine.call.forked_process import ChildProcess, ForkedProcess
from strandline.storage.outputs.disk.own_handles import keep_own

# The child uses the module search path of this process, including changes made at run time. Loading
# the modules takes seconds on a busy machine. If the driver closes the socket during that time,
# SIGIO ends the child.
_PROGRAM = """
import fcntl, json, os, signal, socket, sys
control = socket.socket(fileno=os.dup(int(sys.argv[1])))
flags = fcntl.fcntl(control, fcntl.F_GETFL)
def end_if_closed(*_):
    try:
        if not control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            os._exit(0)
    except BlockingIOError:
        pass
signal.signal(signal.SIGIO, end_if_closed)
fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(control, fcntl.F_SETFL, flags | os.O_ASYNC)
end_if_closed()
sys.path[:] = json.loads(sys.argv[2])
from strandline.engine.processes.fork_server import main
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(control, fcntl.F_SETFL, flags)
signal.signal(signal.SIGIO, signal.SIG_DFL)
control.close()
main(int(sys.argv[1]), int(sys.argv[3]))
"""
NAME = "strand-forker"
_END_SECONDS = 10.0  # seconds to wait for the program to end without a signal


class ForkProgram:
    """A process that waits for requests to fork workers, and ends with this process.

    Args:
        is_fork: fork this process, which shares its loaded modules. This process must run no thread
            yet. Otherwise start a new interpreter.

    Attributes:
        control: socket to the process.
        process: the process itself.
    """

    def __init__(self, *, is_fork: bool = False) -> None:
        self._environment = dict(os.environ)
        self.control, theirs = socket.socketpair()
        keep_own(self.control.fileno())
        with theirs:
            start = _fork if is_fork else _start
            self.process = start(theirs.fileno())

    def is_as_new(self) -> bool:
        """Return whether the program still runs, and would be the same if it were started now."""
        # Compare the environment: the user's code may set variables, and workers must get these
        # variables.
        return self.process.poll() is None and self._environment == dict(os.environ)

    def end(self) -> None:
        """End the process and all of its workers."""
        with suppress(OSError):  # the program has already died
            self.control.shutdown(socket.SHUT_RDWR)  # a child of this process may have a copy
        self.control.close()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def dismiss(self) -> None:
        """End the process, which has no workers, even while its modules load."""
        self.control.close()
        self.process.kill()
        self.process.wait()


def _start(control: int) -> ChildProcess:
    words = [str(control), json.dumps(sys.path), str(os.getpid())]
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        pass_fds=[control],
        start_new_session=True,  # only the driver handles a terminal's interrupt
    )


def _fork(control: int) -> ChildProcess:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return ForkedProcess(pid)
    code = 1
    try:
        os.setsid()  # see above
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Do not keep the driver's other files: a copy of a pipe would hide the end of the driver.
        os.closerange(3, control)
        os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
        from strandline.engine.processes.fork_server import main  # noqa: PLC0415 - see above

        main(control, parent)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


_AHEAD: ContextVar[ForkProgram | None] = ContextVar("ahead", default=None)
_KEEPS: ContextVar[bool] = ContextVar("keeps", default=False)


def start_ahead(*, is_fork: bool = False) -> None:
    """Start the program for the next run, in case the run forks.

    A program that was started earlier is kept, if a new program would be the same.

    Args:
        is_fork: see `ForkProgram`.
    """
    ahead = _AHEAD.get()
    if ahead is not None and ahead.is_as_new():
        return
    end_ahead()
    _AHEAD.set(ForkProgram(is_fork=is_fork))


def take_program() -> ForkProgram:
    """Return the program that was started ahead, or start a new program."""
    ahead = _AHEAD.get()
    if ahead is not None and ahead.is_as_new():
        _AHEAD.set(None)
        return ahead
    end_ahead()
    return ForkProgram()


@contextmanager
def ending_ahead() -> Iterator[None]:
    """Keep a program for further runs of this block, and end an unused one after the block."""
    token = _KEEPS.set(True)
    try:
        yield
    finally:
        _KEEPS.reset(token)
        end_ahead()


def is_kept() -> bool:
    """Return whether another run may use the program of this run; see `ending_ahead`."""
    return _KEEPS.get()


def keep_program(program: ForkProgram) -> None:
    """Keep a program, which has no workers, for the next run."""
    end_ahead()
    _AHEAD.set(program)


def end_ahead() -> None:
    """End the program that was started ahead, if any."""
    ahead = _AHEAD.get()
    if ahead is not None:
        _AHEAD.set(None)
        ahead.dismiss()
