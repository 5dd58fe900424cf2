"""Reads the kernel's records of out-of-memory kills: counters and log.

A killed process can't report why it died, but the kernel can. This module only returns numbers and
log records; callers decide which of Strandline's processes was killed, and how to react.

The counter is updated before the killed process has ended; the log record may appear shortly after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
LOG = Path("/dev/kmsg")

_V1_KILLS, _V1_LIMIT = "memory.oom_control", "memory.limit_in_bytes"
_V2_KILLS, _V2_LIMIT = "memory.events", "memory.max"
_UNLIMITED = 1 << 60  # in v1, "no limit" is a number larger than any machine's memory
_RECORD_BYTES = 1 << 14  # if a record is larger than the buffer, the read fails and skips it
_READS_AT_MOST = 100_000  # more than the kernel keeps; ends the reading of a growing log
_RECORD = re.compile(r"(\d+),[^;\n]*;(.*)")
_KILL = re.compile(
    r"Killed process (?P<pid>\d+)(?:, UID \d+,)? \((?P<name>.*?)\)(?=,? UID|,? total-vm|,?\s*$)"
)


@dataclass(frozen=True, slots=True)
class KernelKill:
    """A kill in the kernel's log.

    Attributes:
        pid: pid of the killed process on the host, which differs from the pid in a container.
        name: name of the process, truncated to 15 characters by the kernel.
        text: the message.
    """

    pid: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The memory cgroup of a process, as far as this process can see.

    Attributes:
        path: folder of the cgroup.
        mount: mount point of the hierarchy: the folder itself or one of its parents.
        is_v2: whether the cgroup has the v2 interface.
    """

    path: Path
    mount: Path
    is_v2: bool

    def read_kills(self) -> int | None:
        """Return the number of kills since the cgroup was created, or None if it can't be read.

        The number of a v2 cgroup includes kills in child groups.
        """
        return read_counter(_read(self.path / (_V2_KILLS if self.is_v2 else _V1_KILLS)))

    def read_limit(self) -> int | None:
        """Return the smallest limit of the cgroup and its parents in bytes, if any."""
        name = _V2_LIMIT if self.is_v2 else _V1_LIMIT
        around = [self.path, *self.path.parents]
        visible = around[: around.index(self.mount) + 1]
        limits = (read_limit(_read(folder / name)) for folder in visible)
        return min((limit for limit in limits if limit is not None), default=None)


class MemoryKills:
    """Counts the kernel's out-of-memory kills since this object was created.

    Args:
        group: the cgroup whose counter is read, or None to count no kills.
        log: the kernel's log. A log that can't be opened counts as empty.
    """

    def __init__(self, group: MemoryGroup | None, log: Path) -> None:
        self._group = group
        self._log = _open_at_end(log)
        self._begin: int | None = None
        self._count = self._taken = 0
        self.count()

    @classmethod
    def of_this_process(cls, proc: Path = PROC, cgroup: Path = CGROUP, log: Path = LOG) -> Self:
        """Return a counter for this process's cgroup, and for new records of the kernel's log."""
        return cls(find_group(_read(proc / "self/cgroup"), cgroup), log)

    def count(self) -> int:
        """Return the kills since this object was created.

        While the counter can't be read, the number stays the same.
        """
        total = None if self._group is None else self._group.read_kills()
        if total is not None:
            # The first good read is the baseline, because the total includes earlier kills.
            self._begin = total if self._begin is None else self._begin
            self._count = max(self._count, total - self._begin)
        return self._count

    def take(self) -> int:
        """Return the number of kills since the last call, or since this object was created."""
        count = self.count()
        fresh, self._taken = count - self._taken, count
        return fresh

    def limit(self) -> int | None:
        """Return the memory limit in bytes, or None if there is no limit or it can't be read."""
        return None if self._group is None else self._group.read_limit()

    def read_log(self) -> list[KernelKill]:
        """Return the kills logged since the last call, including those of other programs."""
        if self._log is None:
            return []
        return parse_kills(b"".join(_read_records(self._log)).decode(errors="replace"))

    def close(self) -> None:
        """Close the log. Later reads return no kills."""
        if self._log is not None:
            os.close(self._log)
            self._log = None


def find_group(membership: str, mounts: Path) -> MemoryGroup | None:
    """Return the memory cgroup of a process, or None if the kernel shows no cgroup.

    Args:
        membership: text in the format of /proc/self/cgroup.
        mounts: the folder below which hierarchies are mounted.
    """
    paths = dict(parse_membership(membership))
    v1 = mounts / "memory"
    if "memory" in paths and v1.is_dir():
        return MemoryGroup(_find_folder(v1, paths["memory"]), v1, is_v2=False)
    for v2 in (mounts, mounts / "unified"):  # `unified` on hosts where v1 has the other controllers
        if "" in paths and (v2 / "cgroup.controllers").is_file():
            return MemoryGroup(_find_folder(v2, paths[""]), v2, is_v2=True)
    return None


def parse_membership(text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of controller and path from the text of /proc/self/cgroup.

    The controller of v2 is an empty string.
    """
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/"):
            yield from ((controller, path) for controller in controllers.split(","))


def read_counter(text: str) -> int | None:
    """Return the number after `oom_kill`, or None if the text has no such line.

    Kernels before 4.13 don't count kills.
    """
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.strip().isdigit():
            return int(number)
    return None


def read_limit(text: str) -> int | None:
    """Return a limit in bytes, or None for `max`, for v1's huge default, and for invalid text."""
    word = text.strip()
    return int(word) if word.isdigit() and int(word) < _UNLIMITED else None


def parse_kills(text: str) -> list[KernelKill]:
    """Return the kills in records of the form `priority,number,time,flags;message`.

    Records that programs wrote into the log are ignored, because only the kernel kills for memory.
    """
    kills = []
    for line in text.split("\n"):  # skip continuation lines, which start with a blank
        record = _RECORD.match(line)
        if record is None or int(record[1]) >= 8:  # noqa: PLR2004 - the three bits of urgency
            continue
        if found := _KILL.search(record[2]):
            kills.append(KernelKill(int(found["pid"]), found["name"], record[2]))
    return kills


def _find_folder(mount: Path, path: str) -> Path:
    """Return the folder of a cgroup below a mount.

    In a container, the path may start at the host's root, while the mount shows only a subtree. So
    use the longest suffix of the path that exists below the mount, or else the mount itself.
    """
    parts = Path(path).parts[1:]
    ends = (parts[start:] for start in range(len(parts)) if ".." not in parts)
    return next((location for end in ends if (location := mount.joinpath(*end)).is_dir()), mount)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _open_at_end(log: Path) -> int | None:
    with suppress(OSError):
        handle = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        with suppress(OSError):  # a pipe can't seek
            os.lseek(handle, 0, os.SEEK_END)
        return handle
    return None


def _read_records(handle: int) -> Iterator[bytes]:
    for _ in range(_READS_AT_MOST):
        try:
            record = os.read(handle, _RECORD_BYTES)
        except BrokenPipeError:  # records were overwritten; the next read continues with the oldest
            continue
        except OSError:  # also if there are no more records for now
            return
        if not record:
            return
        yield record
