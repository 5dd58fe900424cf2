"""Measures how fast a resumed run skips finished sources, and whether its memory stays constant."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lmdb

from strandline.engine.core.ports import Listing
from strandline.ledger.location import LedgerLocation
from strandline.ledger.store.index import key_row
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key
from strandline.run.attempt.phases.look_ahead import pass_over
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.ports import OutputLocation
from strandline_bench.ground.filled_ledger import TEN_MILLION, FilledLedger, key_of, version_of
from strandline_bench.ground.garbage import search_as_commands
from strandline_bench.ground.memory import read_own_memory
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, bound, format_number

_MEGABYTE = 1_000_000
# Sources are created in batches, and the creation is not timed. Lookups that are pending meanwhile
# continue; they are about a hundredth of a batch.
_SEGMENT = 1_000_000
_WARM = 100  # batches until imports, caches, and arenas have settled, and memory is compared


class SkipCost(NamedTuple):
    """Seconds to skip all sources, and memory growth of the process in bytes."""

    seconds: float
    growth: int


def measure_skip(scale: Scale) -> list[Row]:
    """Measure how fast a run skips finished sources: list all sources, and look up each of them."""
    ledger, cores = scale.fill_ledger(), len(os.sched_getaffinity(0))
    factor = TEN_MILLION / ledger.sources
    scaled = "" if factor == 1 else f", scaled up from {ledger.sources:,}"
    what = f"skip 10,000,000 finished sources{scaled}"
    walk = run_apart(walk_bare, ledger)
    alone = run_apart(skip_all, ledger, 1)
    side_by_side = run_apart(skip_all, ledger, cores)
    filled = f"fill a ledger with 10,000,000 sources{scaled}: time"
    return [
        bound(filled, ledger.seconds * factor, 120, "s"),
        bound(f"{what}: time", side_by_side.seconds * factor, 20, "s"),
        Row(f"{what}: time in one process", format_number(alone.seconds * factor, "s")),
        Row(f"{what}: keys alone, by bare LMDB", format_number(walk * factor, "s")),
        bound("skip, as a multiple of bare LMDB", side_by_side.seconds / walk, 1.5, "×"),
        Row("skip in one process, as a multiple", format_number(alone.seconds / walk, "×")),
        bound(f"{what}: growth of memory", side_by_side.growth / _MEGABYTE, 20, "MB"),
    ]


def skip_all(ledger: FilledLedger, cores: int) -> SkipCost:
    """Admit every source of a listing, as an engine does.

    Raises:
        RuntimeError: if not all were skipped.
    """
    store = Store(ledger.path)
    store.take_lease({"attempt": 2, "uid": "bench"})
    outputs = Path("unused")
    writer = LedgerWriter(store, LocalOutputs(outputs), 2, time.monotonic)
    sources = _Sources(ledger.sources)
    location = LedgerLocation(ledger.path, 2, "bench", OutputLocation(str(outputs)), False, 3)  # noqa: FBT003
    listing = pass_over(
        Listing(iter(sources)), location, store.count()["finished"], cores, time.monotonic
    )
    memory, begun = _Growth(), time.perf_counter()
    before = 0
    with search_as_commands():
        while not listing.is_ended:
            batch = listing.draw()
            passed, before = listing.passed - before, listing.passed
            writer.admit([listed for listed, _ in batch], passed)
            memory.look()
        writer.end_listing(listing.listed)
    seconds = time.perf_counter() - begun - sources.seconds
    skipped = writer.drain(0, anything_died=False).skipped
    listing.close()
    store.close()
    if skipped != ledger.sources:
        msg = f"{ledger.sources - skipped} finished sources were not skipped"
        raise RuntimeError(msg)
    return SkipCost(seconds, memory.bytes)


def walk_bare(ledger: FilledLedger) -> float:
    """Return the seconds that bare LMDB needs to look up all keys, without decoding their values.

    Raises:
        RuntimeError: if a key is missing.
    """
    seconds = 0.0
    with (
        search_as_commands(),
        lmdb.open(str(ledger.path), readonly=True, lock=False, max_dbs=16) as environment,
        environment.begin(db=environment.open_db(b"finished", create=False)) as transaction,
    ):
        for start in range(0, ledger.sources, _SEGMENT):
            keys = list(map(key_of, range(start, min(start + _SEGMENT, ledger.sources))))
            begun = time.perf_counter()
            rows = map(transaction.get, map(key_row, map(digest_key, keys)))
            missing = [row for row in rows if row is None]
            seconds += time.perf_counter() - begun
            if missing:
                msg = f"{len(missing)} finished sources have no row"
                raise RuntimeError(msg)
    return seconds


class _Sources:
    """Lists sources, and measures the seconds spent on creating them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Source]:
        for start in range(0, self.count, _SEGMENT):
            yield from self._make(range(start, min(start + _SEGMENT, self.count)))

    def _make(self, numbers: range) -> list[Source]:
        begun = time.perf_counter()
        made = [Source(key_of(number), version_of(number), None) for number in numbers]
        self.seconds += time.perf_counter() - begun
        return made


class _Growth:
    """Measures a process's memory growth after the first batches. All readings include sources."""

    def __init__(self) -> None:
        self.bytes = self._looks = self._settled = 0

    def look(self) -> None:
        self._looks += 1
        if self._looks == _WARM:
            self._settled = read_own_memory()
        if self._looks > _WARM and not self._looks % _WARM:
            self.bytes = max(self.bytes, read_own_memory() - self._settled)
