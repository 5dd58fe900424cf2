"""The workers of every stage, and the calls that are with them.

It starts, loads, drains and replaces actors. What a lost worker means for the run is the driver's
to say, how many there should be is the planner's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.experimental import get_local_object_locations

from strandline.engine.autoscaler.model import find_ratio
from strandline.engine.call.setup import find_folder, remove
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import Plain, pack_batch, unpack_receipt
from strandline.engine.core.call_size import StageLoad, bound_call, level_calls, size_call
from strandline.engine.core.pools import (
    Candidate,
    PoolState,
    RayOptions,
    bound_calls,
    bound_queue,
    choose_worker,
)
from strandline.engine.core.worker_pool import Call, Pool, Worker
from strandline.engine.ray.worker import Site, start_worker
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Counts, Receipt
from strandline.storage.volume.inflight import InFlightTable


class RayPools:
    """All pools of a run.

    Args:
        pipeline: a name for it that is unique and good in the name of a file.
        inflight: is shown what is with the workers of this node.
        now: seconds from any fixed point.

    Attributes:
        calls: that are with workers, by the reference of their receipt.
        placing, preparing: workers by the references of their words that they have begun, and
            that they are ready.
        has_gone: a worker has ended or was lost; whoever has seen that sets it back.
    """

    def __init__(
        self,
        pipeline: str,
        stages: Sequence[StagePlan],
        options: RayOptions,
        inflight: InFlightTable | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site = Site(pipeline, f"{options.writer}-{uuid4().hex[:12]}")
        self._options = options
        self._inflight = inflight
        self._now = now
        self.calls: dict[Any, Call] = {}
        self.placing: dict[Any, Worker] = {}
        self.preparing: dict[Any, Worker] = {}
        self.has_gone = False
        self._pools = [Pool(stage) for stage in stages]

    def __getitem__(self, stage: int) -> Pool:
        return self._pools[stage]

    def __len__(self) -> int:
        return len(self._pools)

    def start_worker(self, stage: int, cpu: float, node: str | None = None) -> None:
        """Add a worker to a pool; it is not waited for.

        Args:
            cpu: cores that it reserves.
            node: the id of one where there should be room; elsewhere does too.
        """
        pool = self._pools[stage]
        actor, placed, ready = start_worker(pool.plan, cpu, self._options, self._site, node)
        worker = Worker(stage, actor, cpu, node or "", self._now())
        pool.workers.append(worker)
        pool.started += 1
        self.placing[placed] = worker
        self.preparing[ready] = worker

    def take_placed(self, reference: Any, node: str, here: str) -> None:  # noqa: ANN401 - of Ray
        """Note that a worker has begun on that node; and whether that is the driver's."""
        worker = self.placing.pop(reference)
        worker.node, worker.is_here, worker.is_placed = node, node == here, True

    def take_ready(self, reference: Any, node: str, here: str) -> None:  # noqa: ANN401 - of Ray
        """Note that a worker is ready; it may be heard of before the word that it has begun."""
        worker = self.preparing.pop(reference)
        worker.node, worker.is_here, worker.is_placed = node, node == here, True
        worker.is_ready = True
        worker.ready_since = self._now()

    def drain(self, worker: Worker) -> None:
        """Give a worker no new calls, and end it when its calls are done."""
        worker.is_draining = True
        self._end_drained(worker)

    def bound_calls(self, stage: int, waiting: int) -> int:
        """How many calls one of its workers may have now.

        One while so little waits that it should go to those that are being started.

        Args:
            waiting: slots.
        """
        return bound_calls(self[stage].plan, waiting, self[stage].starting)

    def level(self, counts: Sequence[Counts]) -> None:
        """Set what a call of each stage may carry, by what tasks cost and what became of them."""
        loads = [
            StageLoad(
                bound_call(pool.cost, self._find_bytes_in(stage), pool.plan.batch_size),
                pool.plan.group or pool.plan.batch_size,
                pool.takers,
                find_ratio(seen.tasks_in, seen.tasks_out),
            )
            for stage, (pool, seen) in enumerate(zip(self._pools, counts, strict=True))
        ]
        for pool, size in zip(self._pools, level_calls(loads), strict=True):
            pool.call = size

    def size_call(self, stage: int, waiting: int) -> int:
        """Slots that its next call may carry.

        Args:
            waiting: slots.
        """
        pool = self[stage]
        if pool.plan.timeout is not None:
            return pool.plan.batch_size  # what is left of a long call would have to wait for it
        return size_call(pool.call, pool.plan.batch_size, waiting, pool.staying)

    def bound_queue(self, stage: int) -> int:
        """Slots that may wait for a stage."""
        pool = self[stage]
        return bound_queue(pool.call, pool.takers)

    def _find_bytes_in(self, stage: int) -> float:
        return self[stage - 1].cost.bytes_out if stage else 0.0

    def has_room(self, stage: int, most: int) -> bool:
        """True where a worker has fewer calls than `most`, and can take one."""
        return any(True for _ in self._list_free(stage, most))

    def submit(self, stage: int, batch: list[Slot], most: int) -> None:
        """Hand a batch to the worker that suits it, of those with fewer calls than `most`.

        There must be room. Blocks that slots share are handed over once.
        """
        free = list(self._list_free(stage, most))
        is_spread = any(worker.node != free[0].node for worker in free)
        near = _locate(batch) if is_spread else {}
        worker = choose_worker(((Candidate(one.node, len(one.calls)), one) for one in free), near)
        assert worker is not None  # there is room
        picks, blocks = pack_batch(batch)
        number, worker.next_number = worker.next_number, worker.next_number + 1
        data, receipt = worker.actor.run.remote(number, picks, *blocks)
        if not worker.calls:
            worker.busy_since = self._now()
        call = Call(stage, worker, batch, data, number)
        self.calls[receipt] = worker.calls[receipt] = call
        self._show(call)

    def take_answer(self, reference: Any, packed: Plain) -> tuple[Call, Receipt]:  # noqa: ANN401
        """The call that has ended, and its receipt; a worker that should be replaced is drained."""
        call = self.calls[reference]
        worker = call.worker
        if packed[-1] and not worker.is_draining:
            self._pools[call.stage].recycled += 1
            worker.is_draining = True
        self.drop_call(reference)
        receipt = unpack_receipt(packed)
        made = get_local_object_locations([call.data])
        self[call.stage].cost.note(receipt.counts, sum(_size_of(one) for one in made.values()))
        return call, receipt

    def skip_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that can't be made, since what it needs is lost."""
        call = self.calls[reference]
        call.worker.actor.skip.remote(call.number)
        self.drop_call(reference)

    def drop_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that has ended."""
        call = self.calls.pop(reference)
        worker = call.worker
        del worker.calls[reference]
        worker.busy_since = self._now()
        if call.is_shown and self._inflight:
            self._inflight.settle(call.sources)
        self._end_drained(worker)

    def list_sources(self) -> set[bytes]:
        """Sources that are with workers."""
        return {source for call in self.calls.values() for source in call.sources}

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
        self._pools[worker.stage].lost += 1
        self._end(worker)
        calls = list(worker.calls.values())
        for receipt in list(worker.calls):
            self.drop_call(receipt)
        return calls

    def list_overdue(self) -> list[tuple[Worker, str]]:
        """Workers that take longer for a call than it may, and why; it may be answered by now."""
        now = self._now()
        return [one for pool in self._pools for one in pool.list_overdue(now)]

    def has(self, worker: Worker) -> bool:
        """False where the worker was taken out."""
        return worker in self._pools[worker.stage].workers

    def list_workers(self) -> Iterator[Worker]:
        """All workers, stage by stage."""
        return (worker for pool in self._pools for worker in pool.workers)

    def look(self) -> list[PoolState]:
        """How each pool stands."""
        now = self._now()
        return [pool.look(now) for pool in self._pools]

    def stop(self) -> None:
        """End every worker."""
        for worker in list(self.list_workers()):
            self._end(worker)
        remove(find_folder(*self._site, str(ray.get_runtime_context().get_node_id())))

    def _list_free(self, stage: int, most: int) -> Iterator[Worker]:
        """Workers with fewer calls than `most` that can take one."""
        for worker in self._pools[stage].workers:
            is_open = worker.is_ready and not worker.is_draining and len(worker.calls) < most
            if is_open and not worker.has_suspects:
                yield worker

    def _end_drained(self, worker: Worker) -> None:
        if worker.is_draining and not worker.calls and self.has(worker):
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        pool = self._pools[worker.stage]
        pool.workers.remove(worker)
        pool.past += self._now() - worker.ready_since if worker.is_ready else 0.0
        self.has_gone = True
        ray.kill(worker.actor)
        self.placing = {word: one for word, one in self.placing.items() if one is not worker}
        self.preparing = {word: one for word, one in self.preparing.items() if one is not worker}

    def _show(self, call: Call) -> None:
        """Keep the table of work in flight true.

        Whatever is with a worker may be what it works on: it goes on to its next call while the
        answer of the one before is on its way.
        """
        if call.worker.is_here and self._inflight:
            self._inflight.queue(call.sources)
            self._inflight.process(call.sources)
            call.is_shown = True


def _locate(batch: list[Slot]) -> Mapping[str, int]:
    """Bytes of a batch's input by node, as far as Ray's own books in this process say."""
    blocks = {id(slot.block): slot.block for slot in batch if not isinstance(slot.block, list)}
    found: Counter[str] = Counter()
    for place in get_local_object_locations(list(blocks.values())).values():
        for node in place.get("node_ids") or ():
            found[node] += _size_of(place)
    return found


def _size_of(place: Mapping[str, Any]) -> int:
    return place.get("object_size") or 0
