"""Finds and ends processes that stages started.

If a process dies, its children become children of the nearest ancestor that adopts orphans. Such an
ancestor therefore finds every process that its stages left running. The module must not depend on
workers or engines.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SET_DEATH_SIGNAL, _SET_NAME, _SET_SUBREAPER, _GET_SUBREAPER = 1, 15, 36, 37  # options of `prctl`
_PAUSE, _ROUNDS = 0.005, 400  # polling: a killed process may need a moment to end

Find = Callable[[], Collection[int]]


def adopt_orphans() -> None:
    """Request that orphaned descendants become children of this process."""
    ctypes.CDLL(None).prctl(_SET_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """Request that the kernel kill this process when the parent thread that started it ends.

    Args:
        parent: id of the parent process, which may have died before this call.
    """
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Take back the request of `end_with_parent`."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, 0, 0, 0, 0)


def name_process(name: str) -> None:
    """Set the name of this process that `top` and `ps -o comm` show.

    A forked process has the command line of its parent.

    Args:
        name: at most 15 bytes; the kernel cuts the rest.
    """
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)


def list_children() -> dict[int, int]:
    """Return the children of this process, including zombies, with their session ids."""
    children = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                text = Path(path, "stat").read_text(encoding="utf-8", errors="replace")
                _, parent, _, session, *_ = text.rpartition(")")[2].split()
                if int(parent) == os.getpid():
                    children[int(path.name)] = int(session)
    return children


def end_children(find: Find, sleep: Callable[[float], None] = time.sleep) -> None:
    """Kill children until no child is left. Orphans of a killed child appear in the next round."""
    for _ in range(_ROUNDS):
        found = find()
        if not found:
            return
        for child in found:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in found:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)
        sleep(_PAUSE)


@contextmanager
def ending_orphans() -> Iterator[Callable[[], None]]:
    """Adopt orphans for the duration of the block.

    Yields:
        A function that kills all children that this process did not have before the block.
    """
    known, before = set(list_children()), ctypes.c_int()
    libc = ctypes.CDLL(None)
    libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    adopt_orphans()
    try:
        yield lambda: end_children(lambda: list_children().keys() - known)
    finally:
        libc.prctl(_SET_SUBREAPER, before.value, 0, 0, 0)
