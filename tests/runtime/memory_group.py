"""A cgroup with a memory limit for a command, if this machine permits cgroups."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_numbers = itertools.count()


@contextmanager
def made_group(limit: int) -> Iterator[Path | None]:
    """Create a cgroup with a memory limit in bytes, or yield None if that is not permitted.

    Remaining processes in the group are killed at the end.
    """
    v1 = MOUNT / "memory"
    parent, name = (v1, "memory.limit_in_bytes") if v1.is_dir() else (MOUNT, "memory.max")
    group = parent / f"strandline-test-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
        (group / name).write_text(str(limit))
    except OSError:
        with suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        _remove(group)


def enter(group: Path, command: list[str]) -> list[str]:
    """Return the command line that runs `command` inside the group."""
    return ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]


def _remove(group: Path) -> None:
    for _ in range(100):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
