"""Who may write: one new attempt at a time, after the writers of a dead one are gone.

Every process that writes outputs holds the lock file shared; a new attempt takes it exclusively
once. Processes are told apart by pid and start time, so a pid used again is never ended.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from strandline.storage.errors import VolumeError, naming_volume


class Process(NamedTuple):
    """A process of this host: pid, and its start time in clock ticks since boot."""

    pid: int
    started: int


def read_boot_id() -> str:
    """The kernel's id of this boot of this host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def find_process(pid: int) -> Process | None:
    """The live process with that pid; None where there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else Process(pid, int(fields[19]))


def hold_shared(path: Path) -> int:
    """Hold the lock file shared until this process ends; the handle is for a test's sake.

    Raises:
        VolumeError: a new attempt holds it, so this writer belongs to a dead one.
    """
    with naming_volume(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        msg = f"{path}: another attempt has taken over; this writer stops"
        raise VolumeError(msg) from error
    return handle


@contextmanager
def hold_exclusive(
    path: Path, wait: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[list[Process]]:
    """Take the lock alone; writers that outlive `wait` seconds are ended.

    Yields:
        The processes that had to be ended.

    Raises:
        VolumeError: the lock can't be had even so (a writer on another host or container).
    """
    with naming_volume(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _wait_alone(path, handle, wait, sleep)
    finally:
        os.close(handle)


def _wait_alone(
    path: Path, handle: int, wait: float, sleep: Callable[[float], None]
) -> list[Process]:
    pause = 0.1
    for _ in range(max(1, round(wait / pause))):
        if _try_alone(handle):
            return []
        sleep(pause)
    orphans = find_holders(handle)
    for orphan in orphans:
        if find_process(orphan.pid) == orphan:
            with suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)
    for _ in range(50):
        if _try_alone(handle):
            return orphans
        sleep(pause)
    msg = f"{path}: a writer that can't be seen from here still holds the lock"
    raise VolumeError(msg)


def _try_alone(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_holders(handle: int) -> list[Process]:
    """The other live processes that hold a lock on the open file, from the kernel's table."""
    file = os.fstat(handle)
    found = set()
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.replace("->", "").split()
        pid, place = int(fields[4]), fields[5]
        if place.endswith(f":{file.st_ino}") and pid not in {0, -1, os.getpid()}:
            found.add(pid)
    holders = (find_process(pid) for pid in sorted(found) if _has_open(pid, file))
    return [holder for holder in holders if holder]


def _has_open(pid: int, file: os.stat_result) -> bool:
    # Inode numbers repeat across file systems, and the table's device number is not what `stat`
    # says on each of them: ask the process itself, or a stranger might be ended.
    try:
        handles = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for handle in handles:
        with suppress(OSError):
            if os.path.samestat(handle.stat(), file):
                return True
    return False
