"""In which groups tests share a process, and in which order the groups begin.

How long groups took is kept in the tree, written by `make durations`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Most of their tests start a Ray, or several: each of the two groups has one process, or they would
# starve each other. Those of other folders start one now and then, so that all processes have as
# much to do.
RAY = frozenset({"fuzz", "journeys", "runtime"})
RAY_CRASHES = "tests/runtime/crash/"
# They wait for programs that are built while other tests run.
SERVERS = frozenset({"apiserver", "fuzz", "journeys", "stores"})
UNKNOWN_SECONDS = 1.0  # of a file that is new


def find_group(nodeid: str) -> str:
    """Find what a test is kept together with: its file, or others that start a Ray."""
    path = nodeid.partition("::")[0]
    if path.startswith(RAY_CRASHES):
        return "ray-crashes"
    return "ray" if path.split("/")[1] in RAY else path


def order_groups(nodeids: Iterable[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each group: the longest begins first, those with a server last.

    A long one that began last would have its process work alone.

    Args:
        seconds: that each file took.
    """
    files: dict[str, set[str]] = {}
    for nodeid in nodeids:
        files.setdefault(find_group(nodeid), set()).add(nodeid.partition("::")[0])
    lengths = {
        group: sum(seconds.get(name, UNKNOWN_SECONDS) for name in names)
        for group, names in files.items()
    }
    ranked = sorted(lengths, key=lambda group: (needs_server(group), -lengths[group], group))
    return {group: rank for rank, group in enumerate(ranked)}


def needs_server(path: str) -> bool:
    """Return whether a test, or the group of that name, has a server that must be built."""
    return bool(SERVERS.intersection(path.split("/")[1:2]))
