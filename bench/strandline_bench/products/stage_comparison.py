"""Single stages beside the best of those that do the same work: times as slow, on one core.

Seconds are those of the processor, child processes included, so that a busy machine matters little.
What other tables compare is not compared again: filters of quality and repetition, JSON Lines that
are read, and frames of videos.
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

MOST = 1.2  # times the best
_SECONDS = 0.4  # a turn, at least, since clocks of children are coarse


def measure_stages(scale: Scale) -> list[Row]:
    """Do the work of each stage in turns with those that do the same."""
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
    counts = {
        name: do() for name, do in works.items()
    }  # libraries load parts of themselves at the first
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"{work.stage}: not all did the same: {counts}")
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns):
        # A machine is faster at times, so what is compared is done one after the other.
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
    """Return the processor's seconds of a time, by as many times as take long enough."""
    begun, times = _read_clock(), 0
    while not times or _read_clock() - begun < least:
        do()
        times += 1
    return (_read_clock() - begun) / times


def _read_clock() -> float:
    spent = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return time.process_time() + sum(times.user + times.system for times in spent)
