"""Computes early how much disk space a complete gathering will need, to report a shortage.

Only file sizes are considered. The size of a merged file is unknown beforehand, so the module
assumes that it is at most the size of its pieces.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_PIECES = (".shard", ".pack")
MIB = 1 << 20


def measure_need(folder: Path) -> int:
    """Return how many free bytes a complete gathering of a folder of shards needs.

    The gathering copies the pieces into a new pack, which replaces the shards. Later, intermediate
    and final merged files exist beside the pack.
    """
    if not folder.is_dir():
        return 0
    return 2 * sum(_measure(path) for path in folder.iterdir() if path.suffix in _PIECES)


def find_free(folder: Path) -> int:
    """Return how many bytes are free on the volume of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def explain_shortage(folder: Path, find_free: Callable[[Path], int] = find_free) -> str | None:
    """Explain in one sentence why a gathering will not fit, or return None if it will fit."""
    need = measure_need(folder)
    free = find_free(folder) if need else 0
    if need <= free:
        return None
    return (
        f"{folder}: merging the gathered pieces will need up to {need // MIB + 1} MiB, and "
        f"{free // MIB} MiB are free; enlarge the volume before the run ends"
    )


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a gathering has moved the pieces into a pack
        return 0
