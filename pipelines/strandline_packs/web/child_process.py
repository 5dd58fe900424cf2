"""A child process that answers requests over pipes, and that the kernel stops at its limits.

A hanging C parser holds the interpreter lock, so a Python signal handler would never run. The
child's timers keep their default action instead: the kernel kills the process, wherever it hangs.
The timers count CPU time, so a busy machine drops the same items as an idle machine.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

_LENGTH = struct.Struct(">Q")
_SLOWNESS = 20  # wall-clock limit, as a multiple of the CPU time limit
_GRACE = 60.0  # seconds of wall-clock time, in addition
_HAS_PROC = Path("/proc/self/statm").exists()
# Exit codes of a child that exceeded a timer, or whose code crashed.
OVERRUN = frozenset({-signal.SIGPROF, -signal.SIGALRM})
CRASHES = frozenset(
    {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGFPE, -signal.SIGILL}
)


def start_child(program: str) -> subprocess.Popen[bytes]:
    """Start a Python program with pipes to its standard input and output."""
    # The child must import from the same folders as this process.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Kill the child, and close the pipes."""
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        try:
            cast("BinaryIO", stream).close()
        except BrokenPipeError:  # unsent bytes are useless
            continue


def prepare_child() -> tuple[BinaryIO, BinaryIO]:
    """Set the signal handlers of a child, and return its streams for requests and answers.

    Output of libraries is redirected to standard error.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # On Ctrl-C the parent stops the child.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    return sys.stdin.buffer, answers


def bound_memory(memory: int) -> None:
    """Limit the memory of the process, so that a large allocation fails instead of an OOM kill.

    Args:
        memory: limit in bytes, in addition to the memory in use.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if _HAS_PROC else 0
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    # RLIMIT_AS counts all mapped memory, so add the memory in use.
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(
        resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard)
    )


def set_timers(seconds: float) -> None:
    """Start the timers that kill the process, or stop the timers if `seconds` is 0."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    # A waiting child uses no CPU time, so limit the wall-clock time too.
    signal.setitimer(signal.ITIMER_REAL, seconds and seconds * _SLOWNESS + _GRACE)


def send_value(stream: BinaryIO, value: object) -> None:
    """Write a value to the other process.

    Raises:
        BrokenPipeError: the other process has ended.
    """
    data = pickle.dumps(value, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive_value(stream: BinaryIO) -> object:
    """Read the next value of the other process.

    Raises:
        EOFError: the other process has ended.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)  # noqa: S301 - written by our own process
