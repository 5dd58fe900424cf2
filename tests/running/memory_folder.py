"""Provides a folder in memory for test files: a sync to a busy disk takes 8 ms instead of 0.3.

Power losses, full disks, and kinds of file systems are simulated, so no test needs a disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's own, and a folder of our own in it
# Minimum free space and available memory. A whole first tier uses less than a third of either.
LEAST_ROOM = 8 << 30
LEAST_MEMORY = 12 << 30
_MEMORY = Path("/proc/meminfo")
TEMP_ROOT = "PYTEST_DEBUG_TEMPROOT"  # variable that pytest defines


def has_room(folder: Path = SHARED_MEMORY, memory: Path = _MEMORY) -> bool:
    """Return whether the first tier's files fit into memory in addition to its processes."""
    try:
        found = os.statvfs(folder)
        rows = dict(line.split(":", 1) for line in memory.read_text().splitlines())
    except OSError:
        return False
    available = int(rows.get("MemAvailable", "0").split()[0]) << 10
    room = found.f_bavail * found.f_frsize
    return os.access(folder, os.W_OK) and room >= LEAST_ROOM and available >= LEAST_MEMORY


@contextmanager
def temporary_root(environ: Mapping[str, str] = os.environ) -> Iterator[dict[str, str]]:
    """Yield an environment in which pytest writes to memory, if the memory suffices.

    A folder that the user has set stays in effect. All files are removed at the end, including
    those of failed tests.
    """
    if TEMP_ROOT in environ or not has_room():
        yield dict(environ)
        return
    with tempfile.TemporaryDirectory(
        prefix="t", dir=SHARED_MEMORY, ignore_cleanup_errors=True
    ) as root:
        yield {**environ, TEMP_ROOT: root}
