"""The workers of every stage, and the calls that are with them.

It starts, loads and replaces actors. What a lost worker means for the run is the driver's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from strandline.engine.pools import CALLS_PER_WORKER, PoolSize, RayOptions, bound_queue
from strandline.engine.ray_worker import start_worker
from strandline.engine.slots import Slot
from strandline.plan.pipeline import StagePlan
from strandline.storage.inflight import InFlightTable


@dataclass(slots=True, eq=False)
class Worker:
    """One actor and its calls, oldest first, by the reference of their receipt.

    Attributes:
        is_here: it is ready, and on the driver's node.
    """

    stage: int
    actor: Any
    calls: dict[Any, Call] = field(default_factory=dict)
    is_here: bool = False


@dataclass(slots=True)
class Call:
    """A batch that is with a worker, and the reference of the data it will give.

    Attributes:
        is_shown, is_processing: what the table of work in flight says of it.
    """

    stage: int
    worker: Worker
    batch: list[Slot]
    data: Any
    is_shown: bool = False
    is_processing: bool = False

    @property
    def sources(self) -> list[bytes]:
        """The source of each slot."""
        return [slot.source for slot in self.batch]


@dataclass(slots=True)
class Pool:
    """One stage's workers.

    Attributes:
        bound: slots that may wait for the stage.
        deaths: workers lost in a row, without a success between; several over one source are one.
        culprits: sources that were alone with one of these.
    """

    plan: StagePlan
    size: PoolSize
    bound: int
    workers: list[Worker] = field(default_factory=list)
    deaths: int = 0
    culprits: set[bytes] = field(default_factory=set)

    def note_success(self) -> None:
        """Forget the deaths before."""
        self.deaths = 0
        self.culprits.clear()


class RayPools:
    """All pools of a run.

    Args:
        inflight: is shown what is with the workers of this node.
    """

    def __init__(
        self,
        stages: Sequence[StagePlan],
        sizes: Sequence[PoolSize],
        options: RayOptions,
        inflight: InFlightTable | None = None,
    ) -> None:
        self._options = options
        self._inflight = inflight
        self._is_started = False
        self.calls: dict[Any, Call] = {}
        self.preparing: dict[Any, Worker] = {}
        self._pools = [
            Pool(stage, size, bound_queue(stage, size.workers))
            for stage, size in zip(stages, sizes, strict=True)
        ]

    def __getitem__(self, stage: int) -> Pool:
        return self._pools[stage]

    def __len__(self) -> int:
        return len(self._pools)

    def start(self) -> None:
        """Start every worker, once; none is waited for."""
        if self._is_started:
            return
        self._is_started = True
        for stage, pool in enumerate(self._pools):
            for _ in range(pool.size.workers):
                self.start_worker(stage)

    def start_worker(self, stage: int) -> None:
        """Add a worker to a pool."""
        pool = self._pools[stage]
        actor, ready = start_worker(pool.plan, pool.size.cpu, self._options)
        worker = Worker(stage, actor)
        pool.workers.append(worker)
        self.preparing[ready] = worker

    def find_free(self, stage: int) -> Worker | None:
        """The worker with least to do, None where all have enough."""
        worker = min(self._pools[stage].workers, key=lambda one: len(one.calls))
        return worker if len(worker.calls) < CALLS_PER_WORKER else None

    def submit(self, worker: Worker, batch: list[Slot]) -> None:
        """Hand a batch to a worker; blocks that slots share are handed over once."""
        own: list[Any] = []
        blocks: list[Any] = [own]
        numbers: dict[int, int] = {}
        picks = []
        for slot in batch:
            if isinstance(slot.block, list):  # a root task, which the driver holds itself
                picks.append([0, len(own)])
                own.append(slot.block[slot.place])
                continue
            number = numbers.get(id(slot.block))
            if number is None:
                number = numbers[id(slot.block)] = len(blocks)
                blocks.append(slot.block)
            picks.append([number, slot.place])
        data, receipt = worker.actor.run.remote(picks, *blocks)
        self.calls[receipt] = worker.calls[receipt] = Call(worker.stage, worker, batch, data)
        self._show(worker)

    def take_ready(self, receipt: Any, node: str, here: str) -> None:  # noqa: ANN401 - a reference
        """Note that a worker is ready, and whether its node is the driver's."""
        worker = self.preparing.pop(receipt)
        worker.is_here = node == here
        self._show(worker)

    def drop_call(self, receipt: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that has ended."""
        call = self.calls.pop(receipt)
        del call.worker.calls[receipt]
        if call.is_shown and self._inflight:
            forget = self._inflight.settle if call.is_processing else self._inflight.withdraw
            forget(call.sources)
        self._show(call.worker)

    def count_sources(self) -> int:
        """Sources that are with workers."""
        return len({source for call in self.calls.values() for source in call.sources})

    def _show(self, worker: Worker) -> None:
        """Keep the table of work in flight true: a worker's oldest call is the one it works on."""
        if not (worker.is_here and self._inflight):
            return
        for place, call in enumerate(worker.calls.values()):
            if not call.is_shown:
                self._inflight.queue(call.sources)
                call.is_shown = True
            if place == 0 and not call.is_processing:
                self._inflight.process(call.sources)
                call.is_processing = True

    def find_answered(self, worker: Worker) -> list[Any]:
        """The receipts that a lost worker gave before it died."""
        answered = []
        for receipt in worker.calls:
            with suppress(GetTimeoutError, RayError):
                ray.get(receipt, timeout=0)
                answered.append(receipt)
        return answered

    def remove(self, worker: Worker) -> list[Call]:
        """Take a lost worker out; returns its calls, oldest first."""
        self._pools[worker.stage].workers.remove(worker)
        ray.kill(worker.actor)
        worker.is_here = False  # its calls end one by one now, and none of them is worked on
        self.preparing = {ready: one for ready, one in self.preparing.items() if one is not worker}
        calls = list(worker.calls.values())
        for receipt in list(worker.calls):
            self.drop_call(receipt)
        return calls

    def has(self, worker: Worker) -> bool:
        """False where the worker was taken out."""
        return worker in self._pools[worker.stage].workers

    def stop(self) -> None:
        """End every worker."""
        for worker in self._list_workers():
            ray.kill(worker.actor)

    def _list_workers(self) -> Iterator[Worker]:
        for pool in self._pools:
            yield from pool.workers
