"""Descriptors private to this process: forked children of a stage do not keep them open.

A file lock lasts until the last copy of its descriptor is closed, and the peer of a socket sees no
end before that. Executed programs inherit no copies anyway. The module must not depend on the
purpose of a descriptor.
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
    """Hide an open descriptor from children forked later. Return the descriptor."""
    _OWN[handle] = _identify(handle)
    return handle


def keep_own_sockets() -> None:
    """Hide all currently open sockets from forked children; see `keep_own`."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the listing's own descriptor is already closed
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
    """Point a forked child's copies at the null device.

    Closing them would free their numbers, and a later close by a copied object of the parent would
    then close an unrelated file of the child.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle, identity in _OWN.items():
        with suppress(OSError):  # closed meanwhile; the number may belong to another file
            if _identify(handle) == identity:
                os.dup2(nothing, handle, inheritable=False)
    _OWN.clear()
    os.close(nothing)


os.register_at_fork(after_in_child=_detach)
