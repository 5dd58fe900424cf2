"""Fills a ledger with many finished sources through `Store`, as an attempt does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from strandline.ledger.records.entries import Change, Finish, SourceRecord
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import GROUP_SOURCES
from strandline.plan.receipt import Output
from strandline.plan.token import derive_root, digest_key, digest_version
from strandline_bench.ground.garbage import search_as_commands

TEN_MILLION = 10_000_000


class FilledLedger(NamedTuple):
    """A ledger that was filled with finished sources.

    Attributes:
        path: folder of the ledger.
        sources: number of finished sources.
        seconds: seconds that the filling took, including the generation of its contents.
    """

    path: Path
    sources: int
    seconds: float


def key_of(number: int) -> str:
    """Return the 20-character key of a source."""
    return f"shard-{number:014d}"


def version_of(number: int) -> str:
    """Return the version of a source, with the size and form of a file's version."""
    return f"{number}+1700000000000000000"


def fill(folder: Path, sources: int, seconds: float) -> FilledLedger:
    """Write finished sources with one output each, in groups of the writer's maximum size.

    Stop early after `seconds`; the result has the actual number of sources.
    """
    store = Store(folder)
    store.take_lease({"attempt": 1, "uid": "bench"})
    begun = time.monotonic()
    done = 0
    with search_as_commands():
        while done < sources and time.monotonic() - begun < seconds:
            count = min(GROUP_SOURCES, sources - done)
            store.write(Change(finish=[_finish(number) for number in range(done, done + count)]))
            done += count
    store.close()
    return FilledLedger(folder, done, time.monotonic() - begun)


def _finish(number: int) -> Finish:
    key = key_of(number)
    source, version = digest_key(key), digest_version(version_of(number))
    size, rows = 100_000 + number % 900_000, 1_000 + number % 9_000
    # Use the version as the content digest: any 16 bytes serve, provided that they do not compress.
    output = Output(derive_root(source, version), ".parquet", size, source, rows)
    return Finish(source, version, SourceRecord(key, (output,)))
