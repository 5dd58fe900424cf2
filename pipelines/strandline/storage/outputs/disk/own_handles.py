"""Descriptors of this process alone: a child that a stage forks does not keep them open.

A lock on a file lasts until the last copy of its descriptor is closed, and the other side of a
socket sees no end before that. A program that is executed has no copies anyway. This room must not
know what a descriptor is for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_Identity = tuple[int, int]
_OWN: dict[int, _Identity] = {}


def keep_own(handle: int) -> int:
    """Keep an open descriptor from children that are forked later; return the descriptor."""
    _OWN[handle] = _identify(handle)
    return handle


def keep_own_sockets() -> None:
    """Keep all sockets that are open now, whatever has opened them; see `keep_own`."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of the listing itself is closed
            if path.is_socket():
                keep_own(int(path.name))


@contextmanager
def locking(handle: int, operation: int) -> Iterator[None]:
    """Lock an open file as long as the block runs.

    The end of the block unlocks the file rather than leaving that to the end of the descriptor,
    because a child that C code has forked meanwhile has a copy.

    Args:
        operation: see `fcntl.flock`.

    Raises:
        BlockingIOError: another process holds the lock, and the operation does not wait.
    """
    fcntl.flock(keep_own(handle), operation)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _identify(handle: int) -> _Identity:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _detach() -> None:
    """Point a forked child's copies at the null device.

    Closing them would free their numbers, and an object of the parent that ends later would close
    an unrelated file of the child.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle, identity in _OWN.items():
        with suppress(OSError):  # closed meanwhile; another file has the number if it is open
            if _identify(handle) == identity:
                os.dup2(nothing, handle, inheritable=False)
    _OWN.clear()
    os.close(nothing)


os.register_at_fork(after_in_child=_detach)
