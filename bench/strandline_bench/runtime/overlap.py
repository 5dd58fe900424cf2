"""Measures the gain of a worker that reads and sends data while it works."""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import ray

from strandline.engine.call.handover import read_input
from strandline.engine.call.setup import WorkerSite
from strandline.engine.call.slots import WHOLE, Entry
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_receipt, pack_tasks, pick_tasks
from strandline.engine.core.pools import CALLS_PER_WORKER, FIRST_CALL
from strandline.engine.flow.chains import Chain
from strandline.engine.ray.worker import Picks, start_worker
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline.storage.outputs.ports import OutputLocation
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.steady_rate import SteadyRate
from strandline_bench.ground.table import Row, format_number, reach

_SIZE = 10_000_000
_INPUTS = 4
_MILLISECONDS = 1000


class Digest(Stage):
    """Hashes its input without the interpreter lock, for about as long as a transfer takes."""

    def process(self, task: Task) -> Task:
        """Return a changed copy of the data."""
        data = task.data
        seed = blake2b(data, digest_size=1).digest()[0]
        if isinstance(data, bytes):
            return task.replace(bytes([seed]) + data[1:])
        return task.replace(data + seed)


class OneAtATime:
    """The same worker with one thread: Ray prefetches inputs, everything else is sequential."""

    def __init__(self) -> None:
        self._call = StageCall(_plan(), None, time.perf_counter)

    def prepare(self) -> None:
        """Return. Ray calls this method when the actor is ready."""

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, _: int, __: Entry, picks: Picks, *blocks: list[Plain]) -> tuple[list[Any], Plain]:
        """Run a call as `StageWorker.run` does."""
        tasks = read_input(pick_tasks(picks, blocks))[0]
        data, receipt = self._call.run(tasks)
        return pack_tasks(data), pack_receipt(receipt)


def measure_overlap(scale: Scale) -> list[Row]:
    """Measure milliseconds per task with both workers, turn by turn on one Ray cluster.

    The inputs are arrays, then bytes.
    """
    kinds: dict[str, Callable[[], Any]] = {
        "arrays": lambda: np.random.default_rng(1).random(_SIZE // 8),
        "bytes": lambda: os.urandom(_SIZE),
    }
    rows = []
    with started_ray(scale.folder):
        for kind, make in kinds.items():
            seen: dict[str, list[float]] = {"alone": [], "overlapped": []}
            inputs = [_put(make()) for _ in range(_INPUTS)]
            for turn in range(scale.pick(5, 1)):
                for name in sorted(seen, reverse=bool(turn % 2)):
                    seen[name].append(_measure(name, inputs, scale.pick(80, 8)))
            rows += _list_rows(kind, seen)
    return rows


def _list_rows(kind: str, seen: dict[str, list[float]]) -> list[Row]:
    paired = zip(seen["alone"], seen["overlapped"], strict=True)
    ratio = statistics.median(alone / overlapped for alone, overlapped in paired)
    alone = statistics.median(seen["alone"]) * _MILLISECONDS
    what = f"a worker with 10 MB inputs ({kind})"
    return [
        Row(f"{what}: one at a time", format_number(alone, "ms")),
        reach(f"{what}: overlapped, as a multiple of one at a time", ratio, 1.2, "×"),
    ]


def _measure(name: str, inputs: list[Any], count: int) -> float:
    if name == "overlapped":
        outputs = OutputLocation(os.devnull)
        actor, _, ready = start_worker(
            Chain(0, (_plan(),)), 0.1, outputs, WorkerSite("bench", "0001")
        )
    else:
        actor = ray.remote(OneAtATime).options(num_cpus=0.1).remote()
        ready = actor.prepare.remote()
    try:
        ray.get(ready)
        return _drive(actor, inputs, count)
    finally:
        ray.kill(actor)


def _drive(actor: Any, inputs: list[Any], count: int) -> float:  # noqa: ANN401 - an actor
    """Return the seconds per task, with as many concurrent calls as the engine has."""
    rate = SteadyRate(count, time.perf_counter)
    calls: deque[Any] = deque()
    sent = 0
    for done in range(1, count + 1):
        while sent < count and len(calls) < CALLS_PER_WORKER:
            calls.append(
                actor.run.remote(FIRST_CALL + sent, WHOLE, [[0, 0]], inputs[sent % _INPUTS])
            )
            sent += 1
        ray.get(calls.popleft()[1])
        rate.note(done)
    return rate.seconds_per_task


def _put(data: Any) -> Any:  # noqa: ANN401 - a payload, and an object reference
    return ray.put(pack_tasks([Task(data, {}, Lineage(b"s" * 16, b"t" * 16, "key"))]))


def _plan() -> StagePlan:
    return StagePlan("digest", "digest", Digest())
