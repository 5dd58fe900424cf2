"""How much of a volume a whole gathering will take, so that it can be said before the end.

Sizes of files alone are looked at: what a stage makes of its pieces can't be known before, and is
taken to be no larger than they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_PIECES = (".shard", ".pack")
MIB = 1 << 20


def measure_need(folder: Path) -> int:
    """Return bytes that must be free to gather all that lies in a folder for shards.

    Pieces go into a new pack, which takes the place of the shards; then what is joined of them and
    what comes of it are beside it.
    """
    if not folder.is_dir():
        return 0
    return 2 * sum(_measure(path) for path in folder.iterdir() if path.suffix in _PIECES)


def find_free(folder: Path) -> int:
    """Return bytes that are free on the volume of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def explain_shortage(folder: Path, find_free: Callable[[Path], int] = find_free) -> str | None:
    """Explain why a gathering will not fit, in one sentence; None where it will."""
    need = measure_need(folder)
    free = find_free(folder) if need else 0
    if need <= free:
        return None
    return (
        f"{folder}: merging what was gathered will take up to {need // MIB + 1} MiB, and "
        f"{free // MIB} MiB are free; give the volume more before the run ends"
    )


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a gathering has put it into a pack meanwhile
        return 0
