"""The right to write: one new attempt at a time, after the writers of a dead one are gone.

Every process that writes outputs holds the lock file shared; a new attempt takes it exclusively
once. Processes are told apart by pid and start time, so a pid used again is never ended.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from strandline.storage.errors import HeldError, VolumeError, naming_volume
from strandline.storage.outputs.disk.own_handles import keep_own

_PAUSE = 0.1
_TRIES = 10
_SIGNATURE = re.compile(r"([0-9]{1,9}) ([0-9]{1,19}) (.+)")


class Process(NamedTuple):
    """A process of this host: pid, and its start time in clock ticks since boot."""

    pid: int
    started: int


class Holder(NamedTuple):
    """The holder of a lock; the process is None where it can't be seen from here."""

    process: Process | None


def read_boot_id() -> str:
    """Return where a pid means something: this boot of this host, and this namespace of pids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def find_process(pid: int) -> Process | None:
    """Return the live process with that pid; None where there is none or it is a zombie."""
    found = _read_process(pid)
    return None if found is None or found[1] in {"Z", "X"} else found[0]


def identify_child(pid: int) -> Process | None:
    """Return a child of this process that was not waited for; it may have ended."""
    found = _read_process(pid)
    return found and found[0]


def _read_process(pid: int) -> tuple[Process, str] | None:
    """Return the process with that pid, and the letter of its state."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Process(pid, int(fields[19])), fields[0]


def hold_shared(path: Path) -> int:
    """Hold the lock file shared until this process ends, or `release` is called with the handle.

    Raises:
        VolumeError: a new attempt holds it, so this writer belongs to a dead one.
    """
    with naming_volume(path):
        handle = keep_own(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        msg = f"{path}: another attempt has taken over; this writer stops"
        raise VolumeError(msg) from error
    return handle


def release(handle: int) -> None:
    """End a lock that is held; a copy of its descriptor in a child does not hold it either."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def hold_alone(path: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold the lock file as the only one; it says meanwhile which process that is.

    Raises:
        HeldError: another process holds it; the message names it.
        VolumeError: the file can't be made, written or locked.
    """
    with naming_volume(path):
        handle = keep_own(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    try:
        _take_alone(path, handle, sleep)
        with naming_volume(path):
            _sign(handle, _format_self())
        try:
            yield
        finally:
            with suppress(OSError):  # the name of a dead process is as good as none
                _sign(handle, b"")
    finally:
        os.close(handle)


def find_holder(path: Path) -> Holder | None:
    """Return the holder of the lock file alone; None where there is none."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        process = _read_signature(handle)
        # The lock itself is tried only where that tells more: a try takes it for a moment, in the
        # way of its next holder.
        if process is not None and _holds(process.pid, os.fstat(handle)):
            return Holder(process)
        if not _is_free(handle):
            return Holder(next(iter(find_holders(handle)), None))
    finally:
        os.close(handle)
    return None


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
        handle = keep_own(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    try:
        yield _wait_alone(path, handle, wait, sleep)
    finally:
        release(handle)


def _take_alone(path: Path, handle: int, sleep: Callable[[float], None]) -> None:
    for _ in range(_TRIES):  # a look takes it for a moment
        with naming_volume(path):
            if _try_alone(handle):
                return
        sleep(_PAUSE)
    process = _read_signature(handle) or next(iter(find_holders(handle)), None)
    who = f"process {process.pid}" if process else "a process that can't be seen from here"
    msg = f"{who} runs this pipeline already; `strandline drain` stops it"
    raise HeldError(msg)


def _is_free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _format_self() -> bytes:
    own = find_process(os.getpid())
    assert own is not None  # a live process is found
    return f"{own.pid} {own.started} {read_boot_id()}".encode("ascii")


def _sign(handle: int, text: bytes) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0)


def _read_signature(handle: int) -> Process | None:
    """Return the live process of this host that has signed."""
    signed = _SIGNATURE.fullmatch(os.pread(handle, 200, 0).decode("ascii", "replace"))
    if signed is None or signed[3] != read_boot_id():
        return None
    process = Process(int(signed[1]), int(signed[2]))
    return process if find_process(process.pid) == process else None


def _wait_alone(
    path: Path, handle: int, wait: float, sleep: Callable[[float], None]
) -> list[Process]:
    for _ in range(max(1, round(wait / _PAUSE))):
        if _try_alone(handle):
            return []
        sleep(_PAUSE)
    orphans = find_holders(handle)
    for orphan in orphans:
        if find_process(orphan.pid) == orphan:
            with suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)
    for _ in range(50):
        if _try_alone(handle):
            return orphans
        sleep(_PAUSE)
    msg = f"{path}: a writer that can't be seen from here still holds the lock"
    raise VolumeError(msg)


def _try_alone(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_holders(handle: int) -> list[Process]:
    """Return the other live processes that hold a lock on the open file.

    The kernel's table of locks names the process that took a lock, which may be dead while a child
    of that process holds the lock by a copy of the descriptor. So look at each process's own files.
    """
    file = os.fstat(handle)
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    others = (pid for pid in sorted(pids) if pid != os.getpid() and _holds(pid, file))
    holders = (find_process(pid) for pid in others)
    return [holder for holder in holders if holder]


def _holds(pid: int, file: os.stat_result) -> bool:
    """Return whether a process has the file open by a descriptor with a lock."""
    try:
        handles = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # the process of another user, or a dead one
        return False
    for handle in handles:
        with suppress(OSError):
            if os.path.samestat(handle.stat(), file) and _is_locked(pid, handle.name):
                return True
    return False


def _is_locked(pid: int, handle: str) -> bool:
    text = Path(f"/proc/{pid}/fdinfo/{handle}").read_text(encoding="ascii")
    # A process that waits for the lock has a line with an arrow.
    return any(line.startswith("lock:") and "->" not in line for line in text.splitlines())
