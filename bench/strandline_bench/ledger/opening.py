"""Measures the time and memory needed to open a ledger of many finished sources."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from pathlib import Path

from strandline.ledger.store.store import Store
from strandline_bench.ground.memory import read_own_memory
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound

_MEGABYTE = 1_000_000


def measure_open(scale: Scale) -> list[Row]:
    """Open the ledger for writing several times, each time in a new process."""
    ledger = scale.fill_ledger()
    opened = [run_apart(open_once, ledger.path) for _ in range(scale.pick(7, 1))]
    traced = run_apart(open_traced, ledger.path)
    seconds = statistics.median(seconds for seconds, _ in opened)
    memory = statistics.median(max(memory, traced) for _, memory in opened)
    what = f"open a ledger of {ledger.sources:,} finished sources"
    return [
        bound(f"{what}: time", seconds * 1000, 10, "ms"),
        bound(f"{what}: memory", memory / _MEGABYTE, 20, "MB"),
    ]


def open_once(path: Path) -> tuple[float, int]:
    """Return the seconds to open a ledger, and the memory growth of the process in bytes."""
    before = read_own_memory()
    begun = time.perf_counter()
    store = Store(path, readonly=False)
    seconds = time.perf_counter() - begun
    memory = read_own_memory() - before
    store.close()
    return seconds, memory


def open_traced(path: Path) -> int:
    """Return the peak bytes of Python's heap while a ledger is opened."""
    tracemalloc.start()
    store = Store(path, readonly=False)
    peak = tracemalloc.get_traced_memory()[1]
    store.close()
    return peak
