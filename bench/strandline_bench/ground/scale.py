"""The sizes of the benchmarks, and a shared filled ledger that is created on first use."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from strandline_bench.ground.filled_ledger import FilledLedger, fill

Answer = TypeVar("Answer")

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
# Bytes per source while the ledger is filled, because LMDB copies pages before it frees the old
# ones.
_BYTES_PER_SOURCE = 700


class Scale:
    """The size of this run.

    Args:
        is_quick: use small numbers, for a check in less than a minute.
        sources: sources of the filled ledger. None means ten million, or fewer in a quick run.
        pipelines: pipelines of the operator. None means a thousand, or fewer in a quick run.
        cases: cases of the engines, or None for all.
        turns: turns of the engines. None means five, or one in a quick run.
        requests: requests to models, or None for a few thousand.
    """

    def __init__(
        self,
        *,
        is_quick: bool,
        sources: int | None,
        pipelines: int | None = None,
        cases: Sequence[str] | None = None,
        turns: int | None = None,
        requests: int | None = None,
    ) -> None:
        self.is_quick = is_quick
        self.pipelines = pipelines
        self.cases = cases
        self.turns = turns
        self.requests = requests
        self.runs = 0
        self._sources = sources or self.pick(10_000_000, 300_000)
        self.folder = Path(tempfile.mkdtemp(prefix="strandline-bench-"))
        self._ledger_folder: Path | None = None
        self._filled: FilledLedger | None = None

    def pick(self, full: int, quick: int) -> int:
        """Return the full size, or the quick size in a quick run."""
        return quick if self.is_quick else full

    def fill_ledger(self) -> FilledLedger:
        """Return a ledger of finished sources, the same for all callers."""
        if self._filled is None:
            folder = _choose_folder(self._sources * _BYTES_PER_SOURCE)
            self._ledger_folder = Path(tempfile.mkdtemp(prefix="strandline-bench-", dir=folder))
            self._filled = fill(self._ledger_folder, self._sources, self.pick(210, 20))
        return self._filled

    def remove(self) -> None:
        """Remove all files of this run."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._ledger_folder:
            shutil.rmtree(self._ledger_folder, ignore_errors=True)


def run_apart(function: Callable[..., Answer], *arguments: Any) -> Answer:  # noqa: ANN401 - any
    """Call a module's function in a new process, to measure its memory use in isolation."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _choose_folder(size: int) -> str | None:
    """Return a folder in memory, or None if memory is short. The disk is not under test."""
    if not _MEMORY_FOLDER.is_dir() or not os.access(_MEMORY_FOLDER, os.W_OK):
        return None
    free = min(shutil.disk_usage(_MEMORY_FOLDER).free, read_available_memory())
    return str(_MEMORY_FOLDER) if free > size * 3 // 2 else None


def read_available_memory() -> int:
    """Return the bytes available to new processes."""
    return _read_memory("MemAvailable")


def read_installed_memory() -> int:
    """Return the bytes of installed memory."""
    return _read_memory("MemTotal")


def _read_memory(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
