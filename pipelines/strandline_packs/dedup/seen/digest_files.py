"""Sets of digests as sorted files, eight bytes per digest. Merging many files needs little memory.

The module must not depend on the digested values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from strandline_packs.dedup.seen.bloom_filter import Digests

DTYPE = np.dtype("<u8")
_PORTION = 1 << 16  # digests of each file in memory


def read_digests(path: Path) -> Digests:
    """Return the digests in a file as a memory map."""
    if not path.stat().st_size:  # an empty file can't be mapped
        return np.empty(0, DTYPE)
    return np.memmap(path, DTYPE, mode="r")


def join_digests(paths: Sequence[Path], out: Path, portion: int = _PORTION) -> None:
    """Merge the sorted digests of all files into one file, without repetitions.

    Args:
        paths: the sorted files.
        out: the merged file.
        portion: maximum number of digests of each file in memory.
    """
    with out.open("wb") as joined:
        for digests in _join(list(map(read_digests, paths)), portion):
            joined.write(digests.astype(DTYPE).tobytes())


def _join(waiting: list[Digests], portion: int) -> Iterator[Digests]:
    while waiting := [digests for digests in waiting if len(digests)]:
        # All digests up to this limit are in the portions that were read.
        limit = min(digests[:portion][-1] for digests in waiting)
        ends = [int(np.searchsorted(digests[:portion], limit, "right")) for digests in waiting]
        yield np.unique(np.concatenate([d[:end] for d, end in zip(waiting, ends, strict=True)]))
        waiting = [digests[end:] for digests, end in zip(waiting, ends, strict=True)]
