"""A ledger of many finished sources, written through the store as an attempt writes it."""

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


class Filled(NamedTuple):
    """A filled ledger.

    Attributes:
        path: its folder.
        sources: that are finished in it.
        seconds: that it took to fill, with what was put into it made meanwhile.
    """

    path: Path
    sources: int
    seconds: float


def key_of(number: int) -> str:
    """Return the key of a source: 20 characters."""
    return f"shard-{number:014d}"


def version_of(number: int) -> str:
    """Return the version of a source, as a file's size and time of change give it."""
    return f"{number}+1700000000000000000"


def fill(folder: Path, sources: int, seconds: float) -> Filled:
    """Write finished sources, one output each, in groups as large as the writer's largest.

    Stops early when `seconds` are over, so the answer says how many there are.
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
    return Filled(folder, done, time.monotonic() - begun)


def _finish(number: int) -> Finish:
    key = key_of(number)
    source, version = digest_key(key), digest_version(version_of(number))
    size, rows = 100_000 + number % 900_000, 1_000 + number % 9_000
    # Any 16 bytes do for a digest of content; they only have to be as incompressible as one.
    output = Output(derive_root(source, version), ".parquet", size, source, rows)
    return Finish(source, version, SourceRecord(key, (output,)))
