"""Keeps descriptors private to this process: forked children of a stage do not keep them open.

A file lock lasts until the last copy of its descriptor is closed. Likewise, the peer of a socket
sees the end only after the last copy is closed. Programs started with `exec` inherit no copies in
any case. The module must not depend on the purpose of a descriptor.
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
    """Hide an open descriptor from children that are forked later. Return the descriptor."""
    _OWN[handle] = _identify(handle)
    return handle


def keep_own_sockets() -> None:
    """Hide all currently open sockets from children that are forked later; see `keep_own`."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor that listed the folder is already closed
            if path.is_socket():
                keep_own(int(path.name))


@contextmanager
def locking(handle: int, operation: int) -> Iterator[None]:
    """Lock an open file until the block ends.

    Unlock explicitly instead of relying on the close of the descriptor, because a child forked by C
    code may have a copy.

    Args:
        operation: see `fcntl.flock`.

    Raises:
        BlockingIOError: if another process holds the lock, and the operation does not wait.
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
    """Point a forked child's copies of the descriptors at the null device.

    If the copies were closed instead, their numbers would be free for new files. A later close by
    an object copied from the parent would then close an unrelated file of the child.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle, identity in _OWN.items():
        with suppress(OSError):  # the descriptor was closed; another file may have its number now
            if _identify(handle) == identity:
                os.dup2(nothing, handle, inheritable=False)
    _OWN.clear()
    os.close(nothing)


os.register_at_fork(after_in_child=_detach)
