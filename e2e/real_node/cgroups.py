"""Manages a node's cgroups: its only kernel objects that do not end with the namespaces.

A node keeps all of its pods below one cgroup with the node's name in each hierarchy. This module
must not depend on the pods' owners.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
WAIT_SECONDS = 10  # seconds until killed processes are gone
PAUSE = 0.02
INHERITED = ("cpuset.cpus", "cpuset.mems")
# By default, a cgroup with all pods has the same weight as a single process beside it. On a busy
# machine, all pods together would get the CPU share of one process.
WEIGHTS = {"cpu.shares": 10 * 1024, "cpu.weight": 10 * 100}  # in cgroup versions 1 and 2


def make_cgroups(name: str, root: Path = ROOT) -> None:
    """Create a cgroup in every hierarchy, with the weight of ten processes."""
    for hierarchy in list_hierarchies(root):
        cgroup = hierarchy / name
        cgroup.mkdir(exist_ok=True)
        for setting in INHERITED:  # in version 1, empty settings admit no process
            if (cgroup / setting).exists() and not (cgroup / setting).read_text().strip():
                (cgroup / setting).write_text((hierarchy / setting).read_text())
        for setting, weight in WEIGHTS.items():
            if (cgroup / setting).exists():
                (cgroup / setting).write_text(str(weight))


def list_hierarchies(root: Path = ROOT) -> list[Path]:
    """Return the roots for new cgroups: one with version 2, several with version 1."""
    if (root / "cgroup.procs").exists():
        return [root]
    return sorted(
        path.parent for path in root.glob("*/cgroup.procs") if not path.parent.is_symlink()
    )


def list_cgroups(name: str, root: Path = ROOT) -> list[Path]:
    """Return all cgroups with this name and their descendants, children before parents."""
    tops = [hierarchy / name for hierarchy in list_hierarchies(root)]
    found = [Path(folder) for top in tops for folder, _, _ in os.walk(top)]
    return order_for_removal(found)


def order_for_removal(cgroups: Iterable[Path]) -> list[Path]:
    """Sort children before their parents, because only an empty cgroup can be removed."""
    return sorted(cgroups, key=lambda path: (-len(path.parts), path))


def list_processes(cgroups: Iterable[Path]) -> set[int]:
    """Return the processes in the given cgroups."""
    found: set[int] = set()
    for cgroup in cgroups:
        with suppress(OSError):
            found.update(int(line) for line in (cgroup / "cgroup.procs").read_text().split())
    return found - {0}  # 0 stands for processes of another PID namespace


def sweep_cgroups(name: str, root: Path = ROOT) -> list[Path]:
    """Kill all processes in cgroups with this name, and remove the cgroups.

    Return the cgroups that could not be removed.
    """
    end = time.monotonic() + WAIT_SECONDS
    while cgroups := list_cgroups(name, root):
        for cgroup in cgroups:
            thaw(cgroup)
        for process in list_processes(cgroups):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for cgroup in cgroups:
            with suppress(OSError):
                cgroup.rmdir()
        if time.monotonic() > end:
            break
        time.sleep(PAUSE)
    return list_cgroups(name, root)


def thaw(cgroup: Path) -> None:
    """Thaw frozen processes, which otherwise cannot die."""
    for setting, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with suppress(OSError):
            if (cgroup / setting).exists():
                (cgroup / setting).write_text(value)
