"""Finds the file system of a path, and decides whether a memory-mapped ledger is safe there.

A ledger is a memory-mapped file. Processes share a table of readers and a lock in a second mapping.
Both mappings require that all processes run on the same kernel. Therefore, every file system that
several hosts can mount at the same time is rejected, even if the file system keeps files
consistent. `docs/reliability.md` shows the table.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple


class Judgement(NamedTuple):
    """The decision whether a ledger may be on a type of file system.

    Attributes:
        name: common name.
        kinds: type names in the kernel's mount table. `fuse.` matches all types with this prefix.
        is_safe: True if a ledger may be there.
        reason: why the type is safe or unsafe, as the continuation of a sentence.
    """

    name: str
    kinds: tuple[str, ...]
    is_safe: bool
    reason: str


JUDGEMENTS = (
    Judgement(
        "a local disk or block volume",
        ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs"),
        is_safe=True,
        reason="one kernel keeps memory map, locks and disk consistent",
    ),
    Judgement(
        "memory",
        ("tmpfs", "ramfs"),
        is_safe=True,
        reason="like a disk, but its content is lost with the machine",
    ),
    Judgement(
        "a container's own layer",
        ("overlay", "aufs"),
        is_safe=True,
        reason="like the disk below it, but its content is lost with the container",
    ),
    Judgement(
        "NFS",
        ("nfs", "nfs4"),
        is_safe=False,
        reason="each host maps its own pages, and locks are lost with the connection to the server",
    ),
    Judgement(
        "SMB",
        ("cifs", "smb", "smb3", "smbfs"),
        is_safe=False,
        reason="each host maps its own pages, and locks do not exclude other processes",
    ),
    Judgement(
        "AFS",
        ("afs", "openafs", "coda"),
        is_safe=False,
        reason=(
            "files are written back only when they are closed, and memory maps are never written "
            "back"
        ),
    ),
    Judgement(
        "CephFS",
        ("ceph",),
        is_safe=False,
        reason="memory maps are not kept consistent with other hosts, and an evicted client loses "
        "its locks; Ceph's block volumes (RBD) are fine",
    ),
    Judgement(
        "Lustre",
        ("lustre", "lustre_lite"),
        is_safe=False,
        reason=(
            "flock is off or limited to one host unless every client enables it in its mount "
            "options"
        ),
    ),
    Judgement(
        "BeeGFS",
        ("beegfs", "beegfs_nodev"),
        is_safe=False,
        reason=(
            "memory maps are cached by each client, and locks are limited to one host by default"
        ),
    ),
    Judgement(
        "GPFS (IBM Storage Scale)",
        ("gpfs", "mmfs"),
        is_safe=False,
        reason="files are kept consistent, but the lock that processes share in memory does not "
        "work across hosts",
    ),
    Judgement(
        "GlusterFS",
        ("glusterfs",),
        is_safe=False,
        reason="each host maps pages of its own",
    ),
    Judgement(
        "OCFS2, GFS2",
        ("ocfs2", "gfs2"),
        is_safe=False,
        reason="files are kept consistent, but the lock that processes share in memory does not "
        "work across hosts",
    ),
    Judgement(
        "WekaFS, PanFS, OrangeFS",
        ("wekafs", "panfs", "pvfs2", "orangefs"),
        is_safe=False,
        reason="memory maps and locks are not kept consistent across hosts by default",
    ),
    Judgement(
        "a folder of the host in a virtual machine (virtiofs, 9p and others)",
        ("virtiofs", "9p", "vboxsf", "vmhgfs", "prl_fs"),
        is_safe=False,
        reason="the host and other machines use it too, but locks are limited to this machine",
    ),
    Judgement(
        "FUSE",
        ("fuse", "fuseblk", "fuse."),
        is_safe=False,
        reason="memory maps reach the disk through a program that may be killed",
    ),
)
UNKNOWN = Judgement(
    "any other",
    (),
    is_safe=True,
    reason="`strandline doctor` reports it as untested, and tries locks and a memory map",
)
# Types on which `syncfs` is reliable. Other file systems may forward a sync to a server or to a
# lower disk, or ignore the sync.
_SYNCED_WHOLE = frozenset({"ext4", "xfs", "btrfs"})
_TELLS_OF_ERRORS = (5, 8)  # kernel version since which `syncfs` reports errors
_ESCAPE = re.compile(r"\\([0-7]{3})")  # escaped blanks and backslashes in a mount point


def read_mounts() -> str:
    """Return the kernel's mount table as text."""
    return Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")


def find_filesystem(path: str, mounts: str) -> str:
    """Return the type of the file system of `path` (absolute, links resolved), such as `ext4`.

    Args:
        path: an absolute path; it need not exist.
        mounts: text in the format of /proc/self/mountinfo.
    """
    best, kind = "", "unknown"
    for line in mounts.split("\n"):  # not `splitlines`: a mount point may contain other separators
        head, _, tail = line.partition(" - ")
        fields = head.split(" ")
        if len(fields) < 5 or not tail:  # noqa: PLR2004 - the mount point is the fifth field
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # The last mount at a mount point wins, because it hides earlier mounts.
        if inside and len(point) >= len(best):
            best, kind = point, tail.split(" ")[0]
    return kind


def explain_unsafe(path: Path, mounts: str) -> str | None:
    """Explain in one sentence why the ledger can't be at `path`, or return None if it can."""
    kind = find_filesystem(os.path.realpath(path), mounts)
    found = judge(kind)
    if found.is_safe:
        return None
    return (
        f"{path}: the ledger can't be stored on {kind}: {found.reason}; put it on a local disk "
        "or a block volume (the output may stay there)"
    )


def is_local(path: Path, mounts: str) -> bool:
    """Return True if files at `path` are on this host, not on a server."""
    return judge(find_filesystem(os.path.realpath(path), mounts)).is_safe


def is_synced_whole(path: Path, mounts: str, kernel: str) -> bool:
    """Return True if `syncfs` makes all written data at `path` durable and reports errors.

    Args:
        kernel: release of the kernel, such as `6.1.0-18-amd64`.
    """
    release = tuple(int(number) for number in re.findall(r"\d+", kernel)[:2])
    kind = find_filesystem(os.path.realpath(path), mounts)
    return release >= _TELLS_OF_ERRORS and kind in _SYNCED_WHOLE


def judge(kind: str) -> Judgement:
    """Return the `Judgement` for a type of file system, or `UNKNOWN`."""
    for judgement in JUDGEMENTS:
        if kind in judgement.kinds:
            return judgement
        if any(prefix.endswith(".") and kind.startswith(prefix) for prefix in judgement.kinds):
            return judgement
    return UNKNOWN
