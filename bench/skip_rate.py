"""How fast a resumed run passes over what is finished, and whether its memory stays the same."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from bench_scale import Scale, run_apart
from filled_ledger import TEN_MILLION, Filled, key_of, version_of
from memory import read_own_memory
from strandline.engine.core.ports import ADMIT_BATCH
from strandline.ledger.entries import Listed
from strandline.ledger.keeper import Keeper
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key, digest_version
from strandline.storage.outputs.outputs import LocalOutputs
from table import Row, bound

_MEGABYTE = 1_000_000
_CHUNK = 10_000  # keys are made so many at a time, outside of the time taken
_WARM = 20  # chunks before memory is compared: imports, caches and arenas have settled


def measure_skip(scale: Scale) -> list[Row]:
    """Digest every finished source and ask for its verdict, as a run that resumes does."""
    ledger = scale.fill_ledger()
    seconds, growth = run_apart(skip_all, ledger)
    factor = TEN_MILLION / ledger.sources
    scaled = "" if factor == 1 else f", scaled up from {ledger.sources:,}"
    what = f"skip 10,000,000 finished sources{scaled}"
    return [
        bound(f"{what}: time", seconds * factor, 20, "s"),
        bound(f"{what}: growth of memory", growth / _MEGABYTE, 20, "MB"),
    ]


def skip_all(ledger: Filled) -> tuple[float, int]:
    """Return seconds to admit every source from (key, version), and bytes the process grew by."""
    store = Store(ledger.path)
    store.take_lease({"attempt": 2, "uid": "bench"})
    keeper = Keeper(store, LocalOutputs(Path("unused")), 2, time.monotonic)
    seconds, skipped, settled, growth = 0.0, 0, 0, 0
    for chunk, start in enumerate(range(0, ledger.sources, _CHUNK)):
        stop = min(start + _CHUNK, ledger.sources)
        pairs = [(key_of(number), version_of(number)) for number in range(start, stop)]
        begun = time.perf_counter()
        skipped += _skip(keeper, pairs, start)
        seconds += time.perf_counter() - begun
        if chunk < _WARM:
            settled = read_own_memory()
        growth = max(growth, read_own_memory() - settled)
    store.close()
    if skipped != ledger.sources:
        msg = f"{ledger.sources - skipped} finished sources were not skipped"
        raise RuntimeError(msg)
    return seconds, growth


def _skip(keeper: Keeper, pairs: Iterable[tuple[str, str]], start: int) -> int:
    listed = _digest(pairs, start)
    skipped = 0
    while batch := list(islice(listed, ADMIT_BATCH)):
        skipped += keeper.admit(batch).count(False)
    return skipped


def _digest(pairs: Iterable[tuple[str, str]], start: int) -> Iterator[Listed]:
    for ordinal, (key, version) in enumerate(pairs, start):
        yield Listed(digest_key(key), digest_version(version), key, ordinal)
