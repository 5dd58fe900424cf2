"""Lists everything on this machine that belongs to a folder's node.

The lists are empty if no node is running. This module must not depend on how a node is shut down.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from real_node import cgroups, layout


def list_leftovers(folder: Path) -> list[str]:
    """Return a line for each process, cgroup, mount, link, and file of a node."""
    name = layout.name_cgroup(folder)
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True)
    state = folder / layout.STATE
    return [
        *(f"process {each}" for each in list_processes(folder, name)),
        *(f"cgroup {each}" for each in cgroups.list_cgroups(name)),
        *(f"mount {each}" for each in pick_mounts(mounts, folder)),
        *(f"link {each}" for each in pick_links(links.stdout.splitlines())),
        *([f"folder {state}"] if state.exists() else []),
    ]


def list_processes(folder: Path, cgroup: str) -> Iterator[str]:
    """Return processes that a folder's node started or that run in its pods."""
    mark = f"{layout.FOLDER_VARIABLE}={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            mine = mark in (process / "environ").read_bytes().split(b"\0")
            in_pod = cgroup in (process / "cgroup").read_text()
            if mine or in_pod:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield f"{process.name} {words[:80]}"


def pick_mounts(lines: Iterable[str], folder: Path) -> list[str]:
    """Return the mount points below a folder, from the kernel's mount table."""
    mount_points = (line.split(" ")[4] for line in lines)
    return [path for path in mount_points if Path(path).is_relative_to(folder)]


def pick_links(lines: Iterable[str]) -> list[str]:
    """Return the network links of a node from the output of `ip -oneline link`."""
    names = (line.split(": ")[1].split("@")[0] for line in lines if ": " in line)
    return [name for name in names if name in {layout.NODE_LINK, layout.POD_LINK}]
