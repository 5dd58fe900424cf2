"""On which file system a path lies, and whether a memory-mapped ledger is safe there."""

from __future__ import annotations

import os
import re
from pathlib import Path

UNSAFE = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre"}
)
_ESCAPE = re.compile(r"\\([0-7]{3})")  # of blanks and backslashes in a mount point


def read_mounts() -> str:
    """The kernel's table of mounts, as text."""
    return Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")


def find_filesystem(path: str, mounts: str) -> str:
    """The type of the file system that holds `path` (absolute, links resolved), such as `ext4`.

    Args:
        path: an absolute path; it need not exist.
        mounts: text in the form of /proc/self/mountinfo.
    """
    best, kind = "", "unknown"
    for line in mounts.split("\n"):  # a mount point may hold any other line end
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, tail.split(" ")[0]
    return kind


def explain_unsafe(path: Path, mounts: str) -> str | None:
    """Why the ledger can't live at `path`, in one sentence; None where it can."""
    kind = find_filesystem(os.path.realpath(path), mounts)
    if kind not in UNSAFE and not kind.startswith("fuse"):
        return None
    return (
        f"{path}: the ledger can't live on {kind}: its memory map and locks are not reliable over "
        "a network or in user space; put it on a local disk or a block volume "
        "(the output may stay there)"
    )
