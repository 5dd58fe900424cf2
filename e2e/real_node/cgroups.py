"""The cgroups of a node: the one thing of it in the kernel that namespaces don't take along.

A node keeps all of its pods below one cgroup of its own name in each hierarchy. This room must not
know which pipelines they are of.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
WAIT_SECONDS = 10  # seconds, until what was killed is gone
PAUSE = 0.02
INHERITED = ("cpuset.cpus", "cpuset.mems")
# To the kernel a cgroup is by default as much as one process beside it: on a machine that has
# other work, all pods together would get what one process of that work gets.
WEIGHTS = {"cpu.shares": 10 * 1024, "cpu.weight": 10 * 100}  # with version 1, with version 2


def make_cgroups(name: str, root: Path = ROOT) -> None:
    """Make a cgroup of a name in every hierarchy, as heavy as ten processes."""
    for hierarchy in list_hierarchies(root):
        cgroup = hierarchy / name
        cgroup.mkdir(exist_ok=True)
        for setting in INHERITED:  # a new one of version 1 has none, and no process may enter it
            if (cgroup / setting).exists() and not (cgroup / setting).read_text().strip():
                (cgroup / setting).write_text((hierarchy / setting).read_text())
        for setting, weight in WEIGHTS.items():
            if (cgroup / setting).exists():
                (cgroup / setting).write_text(str(weight))


def list_hierarchies(root: Path = ROOT) -> list[Path]:
    """List where cgroups can be made: one place with version 2, many with version 1."""
    if (root / "cgroup.procs").exists():
        return [root]
    return sorted(
        path.parent for path in root.glob("*/cgroup.procs") if not path.parent.is_symlink()
    )


def list_cgroups(name: str, root: Path = ROOT) -> list[Path]:
    """List the cgroups of a name and all below them, children before parents."""
    tops = [hierarchy / name for hierarchy in list_hierarchies(root)]
    found = [Path(folder) for top in tops for folder, _, _ in os.walk(top)]
    return order_for_removal(found)


def order_for_removal(cgroups: Iterable[Path]) -> list[Path]:
    """Put children before their parents: only an empty cgroup can be removed."""
    return sorted(cgroups, key=lambda path: (-len(path.parts), path))


def list_processes(cgroups: Iterable[Path]) -> set[int]:
    """List the processes that are in one of some cgroups."""
    found: set[int] = set()
    for cgroup in cgroups:
        with suppress(OSError):
            found.update(int(line) for line in (cgroup / "cgroup.procs").read_text().split())
    return found - {0}  # 0 stands for processes of another PID namespace


def sweep_cgroups(name: str, root: Path = ROOT) -> list[Path]:
    """Kill all that is below a name and remove the cgroups; return those that would not go."""
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
    """Let frozen processes go on, since a frozen one does not die."""
    for setting, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with suppress(OSError):
            if (cgroup / setting).exists():
                (cgroup / setting).write_text(value)
