"""What the kernel tells of processes that it killed for want of memory: its counters and its log.

A killed process can't say why it died; the kernel can. This room reads and gives numbers back;
which process of ours was meant, and what follows from it, it must not know.

The counter has grown before the killed process is gone; its line in the log may come just after.
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
_UNLIMITED = 1 << 60  # v1 has no word for it: it says a number that no machine has
_RECORD_BYTES = 1 << 14  # a read with less room than the record has fails and skips it
_READS_AT_MOST = 100_000  # the kernel keeps fewer; a log that grows while we read must not hold us
_RECORD = re.compile(r"(\d+),[^;\n]*;(.*)")
_KILL = re.compile(
    r"Killed process (?P<pid>\d+)(?:, UID \d+,)? \((?P<name>.*?)\)(?=,? UID|,? total-vm|,?\s*$)"
)


@dataclass(frozen=True, slots=True)
class KernelKill:
    """A kill as the kernel's log has it.

    Attributes:
        pid: of the killed process, counted as the host counts, which a container does not.
        name: of the process, cut to 15 letters by the kernel.
        text: the message.
    """

    pid: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """The memory cgroup of a process, as far as it can be seen from here.

    Attributes:
        path: its folder.
        mount: where the hierarchy is mounted; the folder itself or one above it.
        is_v2: which of the two interfaces it has.
    """

    path: Path
    mount: Path
    is_v2: bool

    def read_kills(self) -> int | None:
        """Return kills in it since it was made; those in groups below it count in v2 alone."""
        return read_counter(_read(self.path / (_V2_KILLS if self.is_v2 else _V1_KILLS)))

    def read_limit(self) -> int | None:
        """Return the least limit of it and the groups around it, in bytes; None without one."""
        name = _V2_LIMIT if self.is_v2 else _V1_LIMIT
        around = [self.path, *self.path.parents]
        visible = around[: around.index(self.mount) + 1]
        limits = (read_limit(_read(folder / name)) for folder in visible)
        return min((limit for limit in limits if limit is not None), default=None)


class MemoryKills:
    """Counts the kernel's kills from now on.

    Args:
        group: it has the counter that is read; None: none can be, and no kill is ever counted.
        log: the kernel's log; one that can't be opened has no kills.
    """

    def __init__(self, group: MemoryGroup | None, log: Path) -> None:
        self._group = group
        self._log = _open_at_end(log)
        self._taken = self.count()

    @classmethod
    def of_this_process(cls, proc: Path = PROC, cgroup: Path = CGROUP, log: Path = LOG) -> Self:
        """Return those of the cgroup that this process is in, and of the log from its end on."""
        return cls(find_group(_read(proc / "self/cgroup"), cgroup), log)

    def count(self) -> int:
        """Return kills since the cgroup was made; 0 where that can't be read."""
        return 0 if self._group is None else self._group.read_kills() or 0

    def take(self) -> int:
        """Return kills since the last call, or since this object was made."""
        count = self.count()
        fresh, self._taken = count - self._taken, count
        return max(0, fresh)

    def limit(self) -> int | None:
        """Return the memory limit in bytes; None without one, or where it can't be read."""
        return None if self._group is None else self._group.read_limit()

    def read_log(self) -> list[KernelKill]:
        """Return kills in the log since the last call; those of other programs are among them."""
        if self._log is None:
            return []
        return parse_kills(b"".join(_read_records(self._log)).decode(errors="replace"))

    def close(self) -> None:
        """Close the log; nothing is read from it any more."""
        if self._log is not None:
            os.close(self._log)
            self._log = None


def find_group(membership: str, mounts: Path) -> MemoryGroup | None:
    """Return the memory cgroup that a process is in; None where the kernel shows none.

    Args:
        membership: text in the form of /proc/self/cgroup.
        mounts: the folder under which hierarchies are mounted.
    """
    paths = dict(parse_membership(membership))
    v1 = mounts / "memory"
    if "memory" in paths and v1.is_dir():
        return MemoryGroup(_find_folder(v1, paths["memory"]), v1, is_v2=False)
    for v2 in (mounts, mounts / "unified"):  # the latter where v1 has the other controllers
        if "" in paths and (v2 / "cgroup.controllers").is_file():
            return MemoryGroup(_find_folder(v2, paths[""]), v2, is_v2=True)
    return None


def parse_membership(text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of controller and path from a text such as /proc/self/cgroup.

    V2's has no name.
    """
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/"):
            yield from ((controller, path) for controller in controllers.split(","))


def read_counter(text: str) -> int | None:
    """Return the number after `oom_kill`.

    None where there is none (kernels before 4.13 don't count).
    """
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.strip().isdigit():
            return int(number)
    return None


def read_limit(text: str) -> int | None:
    """Return bytes; None for `max`, for v1's number without meaning, and for what is no number."""
    word = text.strip()
    return int(word) if word.isdigit() and int(word) < _UNLIMITED else None


def parse_kills(text: str) -> list[KernelKill]:
    """Return the kills in records of the form `priority,number,time,flags;message`.

    Records that a program wrote into the log itself don't count: only the kernel kills.
    """
    kills = []
    for line in text.split("\n"):  # continuations begin with a blank and are no records
        record = _RECORD.match(line)
        if record is None or int(record[1]) >= 8:  # noqa: PLR2004 - the three bits of urgency
            continue
        if found := _KILL.search(record[2]):
            kills.append(KernelKill(int(found["pid"]), found["name"], record[2]))
    return kills


def _find_folder(mount: Path, path: str) -> Path:
    """Return the folder of a cgroup below a mount.

    In a container the path may begin at the host's root, and the mount inside of it: the longest
    end of the path that is there is meant, in the end the mount itself.
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
        with suppress(OSError):  # a pipe has no end to go to
            os.lseek(handle, 0, os.SEEK_END)
        return handle
    return None


def _read_records(handle: int) -> Iterator[bytes]:
    for _ in range(_READS_AT_MOST):
        try:
            record = os.read(handle, _RECORD_BYTES)
        except BrokenPipeError:  # older records were overwritten; the next read has the oldest left
            continue
        except OSError:  # among them: nothing more for now
            return
        if not record:
            return
        yield record
