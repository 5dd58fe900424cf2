"""Assigns tests to groups that share a process, and orders the groups.

`tests/durations.json` has the durations of files; `make test-all` writes it. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

# Folders whose tests share one Ray and therefore run in one process. Tests of other folders that
# start a Ray are spread over all processes.
RAY = frozenset({"engines", "runtime"})
RAY_CRASHES = "tests/runtime/crash/"
# Folders whose tests need a server, which may still be building while other tests run.
SERVERS = frozenset({"apiserver", "stores"})
UNKNOWN_SECONDS = 1.0  # duration of a file if its folder has no known duration either


def find_group(nodeid: str) -> str:
    """Return the group of a test: its file, or the shared group of tests that share a Ray."""
    path = nodeid.partition("::")[0]
    if path.startswith(RAY_CRASHES):
        return "ray-crashes"
    return "ray" if path.split("/")[1] in RAY else path


def order_groups(nodeids: Iterable[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each group: the longest starts first, and groups with a server start last.

    If a long group started last, it would keep one process busy after the others have ended.

    Args:
        seconds: duration of each file. A file without a duration counts as the median of its
            folder.
    """
    files: dict[str, set[str]] = {}
    for nodeid in nodeids:
        files.setdefault(find_group(nodeid), set()).add(nodeid.partition("::")[0])
    medians = _find_medians(seconds)
    lengths = {
        group: sum(seconds.get(name, medians.get(_folder(name), UNKNOWN_SECONDS)) for name in names)
        for group, names in files.items()
    }
    ranked = sorted(lengths, key=lambda group: (needs_server(group), -lengths[group], group))
    return {group: rank for rank, group in enumerate(ranked)}


def needs_server(path: str) -> bool:
    """Return whether a test or a group needs a server that must be built."""
    return bool(SERVERS.intersection(path.split("/")[1:2]))


def _find_medians(seconds: Mapping[str, float]) -> dict[str, float]:
    folders: defaultdict[str, list[float]] = defaultdict(list)
    for name, duration in seconds.items():
        folders[_folder(name)].append(duration)
    return {folder: median(durations) for folder, durations in folders.items()}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
