"""How large the benchmarks are, and the filled ledger they share, built when first asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from strandline_bench.ground.filled_ledger import Filled, fill

Answer = TypeVar("Answer")

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
# Bytes of the file while it is filled: pages are copied before they are freed.
_BYTES_PER_SOURCE = 700


class Scale:
    """How large this run is.

    Args:
        is_quick: small numbers, for a look in less than a minute.
        sources: of the filled ledger; None: ten million, or fewer when quick.
        pipelines: of the operator; None: a thousand, or fewer when quick.
        cases: of the engines; None: all.
        turns: of the engines; None: five, or one when quick.
        requests: to models; None: a few thousand.
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
        self._filled: Filled | None = None

    def pick(self, full: int, quick: int) -> int:
        """Return one of two sizes."""
        return quick if self.is_quick else full

    def fill_ledger(self) -> Filled:
        """Return a ledger of finished sources, the same for all callers."""
        if self._filled is None:
            folder = _choose_folder(self._sources * _BYTES_PER_SOURCE)
            self._ledger_folder = Path(tempfile.mkdtemp(prefix="strandline-bench-", dir=folder))
            self._filled = fill(self._ledger_folder, self._sources, self.pick(210, 20))
        return self._filled

    def remove(self) -> None:
        """Remove all that was made."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._ledger_folder:
            shutil.rmtree(self._ledger_folder, ignore_errors=True)


def run_apart(function: Callable[..., Answer], *arguments: Any) -> Answer:  # noqa: ANN401 - any
    """Call a function of a module in a fresh process, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _choose_folder(size: int) -> str | None:
    """Return a folder in memory where there is room, since not the disk is measured; else None."""
    if not _MEMORY_FOLDER.is_dir() or not os.access(_MEMORY_FOLDER, os.W_OK):
        return None
    free = min(shutil.disk_usage(_MEMORY_FOLDER).free, read_available_memory())
    return str(_MEMORY_FOLDER) if free > size * 3 // 2 else None


def read_available_memory() -> int:
    """Return bytes that processes may still take."""
    return _read_memory("MemAvailable")


def read_installed_memory() -> int:
    """Return bytes that the machine has."""
    return _read_memory("MemTotal")


def _read_memory(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
