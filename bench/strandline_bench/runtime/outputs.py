"""Measures the cost of small outputs on a disk: synced separately, and in groups as sinks do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import BinaryIO
from unittest.mock import patch

from strandline.plan.token import digest_key
from strandline.storage.filesystems import find_filesystem, read_mounts
from strandline.storage.layout import sync_filesystem
from strandline.storage.outputs.disk import local_outputs
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.outputs.remote import open_outputs
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach

CONTENT = b'{"text": "a short document"}\n' * 30
GROUP = 64  # the inline engine's group size
NETWORK_SECONDS = 0.002  # additional latency of a sync on a network disk


def measure_outputs(scale: Scale) -> list[Row]:
    """Write one output per source, alternately with separate syncs and in groups, and compare."""
    kind = find_filesystem(os.path.realpath(scale.folder), read_mounts())
    what = f"an output of {len(CONTENT)} bytes on {kind}"
    flush = Row(f"a flush on {kind}", format_number(_time_flush(scale.folder) * 1000, "ms"))
    rows = [flush, *_compare(scale, "here", what)]
    with _slower_flushes(NETWORK_SECONDS):
        more = f"{what}, a flush {NETWORK_SECONDS * 1000:.0f} ms slower"
        return [*rows, *_compare(scale, "slower", more)]


def _compare(scale: Scale, name: str, what: str) -> list[Row]:
    count, turns = scale.pick(2000, 64), scale.pick(5, 1)
    single, grouped = [], []
    for turn in range(turns):
        single.append(_time_writing(scale.folder / f"{name}-single-{turn}", count, 1))
        grouped.append(_time_writing(scale.folder / f"{name}-grouped-{turn}", count, GROUP))
    each, together = median(single) / count * 1000, median(grouped) / count * 1000
    return [
        Row(f"{what}: by itself", format_number(each, "ms")),
        Row(f"{what}: in a group of {GROUP}", format_number(together, "ms")),
        reach(f"{what}: in a group, times as fast", each / together, 5, "×"),
    ]


def _time_flush(folder: Path) -> float:
    seconds = []
    with (folder / "flushed").open("wb") as file:
        for _ in range(50):
            file.write(CONTENT)
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - begun)
    return median(seconds)


@contextmanager
def _slower_flushes(seconds: float) -> Iterator[None]:
    """Delay each sync, as a network disk does."""

    def slow(flush: Callable[[int], None]) -> Callable[[int], None]:
        def wait(handle: int) -> None:
            flush(handle)
            time.sleep(seconds)

        return wait

    with (
        patch.object(os, "fsync", slow(os.fsync)),
        patch.object(local_outputs, "sync_filesystem", slow(sync_filesystem)),
    ):
        yield


def _time_writing(root: Path, count: int, group: int) -> float:
    # Keep outputs until the end: ext4 examines each inode that was freed within the last minute
    # before it allocates another, and no user's run has this cost.
    store, sources = open_outputs(str(root)), [digest_key(str(number)) for number in range(count)]
    os.sync()  # flush earlier writes, so that they are not measured
    begun = time.perf_counter()
    for start in range(0, count, group):
        _write(store, sources[start : start + group])
    return time.perf_counter() - begun


def _write(store: OutputStore, sources: list[bytes]) -> None:
    with store.grouped() as group:
        for source in sources:
            group.write(source, "t.jsonl", _fill)


def _fill(file: BinaryIO) -> None:
    file.write(CONTENT)
