"""Locks for writing: a new attempt may write only after all writers of a dead attempt are gone.

Every process that writes outputs holds a shared lock on the lock file. A new attempt briefly takes
an exclusive lock, which succeeds only without writers. Processes are identified by pid and start
time, so a process with a reused pid is never killed.
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

# Seconds between two tries.
_PAUSE = 0.1
_TRIES = 10
# Matches `123 45678 1b4e28ba-2fa1-11d2-883f-0016d3cca427 pid:[4026531836]`: pid, start time, and
# scope of the pid.
_SIGNATURE = re.compile(r"([0-9]{1,9}) ([0-9]{1,19}) (.+)")


class Process(NamedTuple):
    """A process of this host, identified by pid and start time in clock ticks since boot."""

    pid: int
    started: int


class Holder(NamedTuple):
    """Holder of a lock. The process is None if this process cannot see the holder."""

    process: Process | None


def read_boot_id() -> str:
    """Return an id of the scope in which pids are unique: boot of this host, and pid namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def find_process(pid: int) -> Process | None:
    """Return the live process with a pid, or None if the process is missing or a zombie."""
    found = _read_process(pid)
    return None if found is None or found[1] in {"Z", "X"} else found[0]


def identify_child(pid: int) -> Process | None:
    """Return a child of this process that was not reaped yet. The child may have ended."""
    found = _read_process(pid)
    return found and found[0]


def _read_process(pid: int) -> tuple[Process, str] | None:
    """Return the process with a pid and the letter of its state, or None if it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Cut at the last parenthesis: the name of a program may contain blanks and parentheses. The
    # start time is field 22 of proc(5); this cut removes the first two fields.
    fields = text.rpartition(")")[2].split()
    return Process(pid, int(fields[19])), fields[0]


def hold_shared(path: Path) -> int:
    """Hold the lock file shared until this process ends or the handle is passed to `release`.

    Raises:
        VolumeError: if a new attempt holds the lock, so this writer belongs to a dead attempt.
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
    """Release a lock, even if a child process has a copy of the descriptor."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def hold_alone(path: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Hold the lock file exclusively until the block ends. Meanwhile the file names this process.

    Raises:
        HeldError: if another process holds the lock; the message names the process.
        VolumeError: if the file can't be created, written, or locked.
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
            with suppress(OSError):  # readers ignore the name of a dead process anyway
                _sign(handle, b"")
    finally:
        os.close(handle)


def find_holder(path: Path) -> Holder | None:
    """Return the exclusive holder of the lock file, or None if the lock is free."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        process = _read_signature(handle)
        # Test the lock only if the signature is inconclusive: the test takes the lock for a moment,
        # which could block the next holder.
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
    """Take the lock exclusively, and kill writers that still hold it after `wait` seconds.

    Yields:
        The killed processes.

    Raises:
        VolumeError: if the lock is still held, by a writer on another host or in another container.
    """
    with naming_volume(path):
        handle = keep_own(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
    try:
        yield _wait_alone(path, handle, wait, sleep)
    finally:
        release(handle)


def _take_alone(path: Path, handle: int, sleep: Callable[[float], None]) -> None:
    for _ in range(_TRIES):  # retry, because `find_holder` may hold the lock for a moment
        with naming_volume(path):
            if _try_alone(handle):
                return
        sleep(_PAUSE)
    process = _read_signature(handle) or next(iter(find_holders(handle)), None)
    who = f"process {process.pid}" if process else "a process that is not visible here"
    msg = f"{who} is already running this pipeline; `strandline drain` stops it"
    raise HeldError(msg)


def _is_free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _format_self() -> bytes:
    own = find_process(os.getpid())
    assert own is not None  # this process is alive
    return f"{own.pid} {own.started} {read_boot_id()}".encode("ascii")


def _sign(handle: int, text: bytes) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, text, 0)


def _read_signature(handle: int) -> Process | None:
    """Return the live process of this host that the lock file names, if any."""
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
        # Check again, because the pid may have been reused since the search.
        if find_process(orphan.pid) == orphan:
            with suppress(ProcessLookupError):
                os.kill(orphan.pid, signal.SIGKILL)
    # Wait up to five seconds: the kernel needs time to end a process that waits for a disk.
    for _ in range(50):
        if _try_alone(handle):
            return orphans
        sleep(_PAUSE)
    msg = f"{path}: a writer that is not visible here still holds the lock"
    raise VolumeError(msg)


def _try_alone(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_holders(handle: int) -> list[Process]:
    """Return the other live processes that hold a lock on the open file.

    The kernel's table of locks names the process that took a lock. That process may be dead while a
    child still holds the lock through a copy of the descriptor. Therefore, check the open files of
    each process.
    """
    file = os.fstat(handle)
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    others = (pid for pid in sorted(pids) if pid != os.getpid() and _holds(pid, file))
    holders = (find_process(pid) for pid in others)
    return [holder for holder in holders if holder]


def _holds(pid: int, file: os.stat_result) -> bool:
    """Return True if a process has a descriptor that holds a lock on the file."""
    try:
        handles = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # another user's process, or a process that has ended
        return False
    for handle in handles:
        with suppress(OSError):
            if os.path.samestat(handle.stat(), file) and _is_locked(pid, handle.name):
                return True
    return False


def _is_locked(pid: int, handle: str) -> bool:
    text = Path(f"/proc/{pid}/fdinfo/{handle}").read_text(encoding="ascii")
    # The kernel marks a process that only waits for the lock with an arrow.
    return any(line.startswith("lock:") and "->" not in line for line in text.splitlines())
