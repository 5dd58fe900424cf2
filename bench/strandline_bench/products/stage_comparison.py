"""Compares single stages with the best alternative for the same work, on one core.

Seconds are CPU time, child processes included, so a busy machine matters little. Other tables cover
quality and repetition filters, the reading of JSON Lines, and video frames.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median

import psutil

from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.products.stage_works import StageWork, list_works
from strandline_bench.text.documents import list_documents

MOST = 1.2  # maximum time, as a multiple of the best alternative's time
_SECONDS = 0.4  # minimum seconds per turn, because CPU clocks of child processes are coarse


def measure_stages(scale: Scale) -> list[Row]:
    """Run each stage's work and its alternatives in turns."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = list_documents(scale.pick(1_000, 40))
    folder = scale.folder / "stages"
    folder.mkdir()
    turns = scale.turns or scale.pick(11, 1)
    return [
        row
        for work in list_works(texts, folder)
        for row in _compare(work, turns, _SECONDS / scale.pick(1, 10))
    ]


def _compare(work: StageWork, turns: int, least: float) -> list[Row]:
    works: dict[str, Callable[[], int]] = {work.stage: work.ours, **work.others}
    counts = {name: do() for name, do in works.items()}  # the first call loads parts of libraries
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"{work.stage}: not all did the same: {counts}")
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns):
        # Run alternatives right after each other, because the machine's speed varies.
        for name in sorted(works, reverse=turn % 2 == 1):
            seconds[name].append(_time(works[name], least))
    took = {name: median(each) for name, each in seconds.items()}
    rows = [
        Row(f"{work.stage}: {_name(name, work)}", format_number(work.size / 1e6 / each, "MB/s"))
        for name, each in took.items()
    ]
    if not work.others:
        return rows
    best = min(work.others, key=took.__getitem__)
    pairs = zip(seconds[work.stage], seconds[best], strict=True)
    slower = median(ours / other for ours, other in pairs)
    return [*rows, bound(f"{work.stage}: times as slow as the best", slower, MOST, "×")]


def _name(name: str, work: StageWork) -> str:
    return "ours" if name == work.stage else name


def _time(do: Callable[[], int], least: float) -> float:
    """Return the CPU seconds of a call, averaged over calls that take at least `least` seconds."""
    begun, times = _read_clock(), 0
    while not times or _read_clock() - begun < least:
        do()
        times += 1
    return (_read_clock() - begun) / times


def _read_clock() -> float:
    spent = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(times.user + times.system for times in spent)
