"""The workers of every stage, and the calls that are with them.

It starts, loads, drains and replaces actors. What a lost worker means for the run is the driver's
to say, how many there should be is the planner's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.experimental import get_local_object_locations
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.autoscaler.model import find_ratio
from strandline.engine.call.chain_call import SPILL_SECONDS, SPILL_SECONDS_OF_SINKS
from strandline.engine.call.setup import WorkerSite, find_folder, remove
from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.call.stage.receipts import OpenTask
from strandline.engine.call.wire import Plain, pack_batch, unpack_receipt
from strandline.engine.core.call_size import (
    SINK_SECONDS,
    StageLoad,
    bound_call,
    level_calls,
    size_call,
)
from strandline.engine.core.chains import Chain
from strandline.engine.core.flow import StageQueue
from strandline.engine.core.pools import (
    Candidate,
    PoolState,
    bound_calls,
    bound_queue,
    choose_worker,
)
from strandline.engine.core.worker_pool import Call, Pool, Worker, WorkerAddress
from strandline.engine.ray.worker import start_worker
from strandline.plan.receipt import Receipt, StageCounts
from strandline.storage.outputs.outputs import OutputLocation
from strandline.storage.volume.inflight import InFlightTable


class RayPools:
    """All pools of a run.

    Args:
        pipeline: a name for it that is unique and good in the name of a file.
        chains: of its stages, each with a pool.
        inflight: is shown what is with the workers of this node.
        now: seconds from any fixed point.
        report: takes what stages have reported in their workers.

    Attributes:
        calls: that are with workers and waited for, by the reference of their receipt.
        paused: that are with workers and have more to tell when it is asked for, by any key.
        unplaced, preparing: workers by the references of their words that they have begun, and
            that they are ready.
        has_gone: a worker has ended or was lost; the scaler sets it back after its look.
    """

    def __init__(
        self,
        pipeline: str,
        chains: Sequence[Chain],
        outputs: OutputLocation,
        inflight: InFlightTable | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._site = WorkerSite(pipeline, f"{outputs.writer}-{uuid4().hex[:12]}")
        self._outputs = outputs
        self._inflight = inflight
        self._now = now
        self.calls: dict[Any, Call] = {}
        self.paused: dict[Any, Call] = {}
        self.unplaced: dict[Any, Worker] = {}
        self.preparing: dict[Any, Worker] = {}
        self.has_gone = False
        self._pools = [Pool(chain) for chain in chains]

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
        joins_below = any(later.plan.group for later in self._pools[stage + 1 :])
        actor, placed, ready = start_worker(
            pool.chain, cpu, self._outputs, self._site, node, joins_below=joins_below
        )
        worker = Worker(stage, actor, cpu, node or "", self._now())
        pool.workers.append(worker)
        pool.started += 1
        self.unplaced[placed] = worker
        self.preparing[ready] = worker

    def take_placed(self, reference: Any, address: WorkerAddress, here: str) -> None:  # noqa: ANN401 - of Ray
        """Note that a worker has begun on that node; and whether that is the driver's."""
        worker = self.unplaced.pop(reference)
        worker.settle(address, here)

    def take_ready(self, reference: Any, address: WorkerAddress, here: str) -> None:  # noqa: ANN401 - of Ray
        """Note that a worker is ready; it may be heard of before the word that it has begun."""
        worker = self.preparing.pop(reference)
        worker.settle(address, here)
        worker.is_ready = True
        worker.ready_since = self._now()

    def drain(self, worker: Worker) -> None:
        """Give a worker no new calls, and end it when its calls are done."""
        worker.is_draining = True
        self._end_drained(worker)

    def bound_calls(self, stage: int, waiting: int, link: int = 0, *, is_all: bool = False) -> int:
        """Return how many calls one of its workers may have now; see `pools.bound_calls`.

        Args:
            waiting: slots.
            link: in a chain, the number of the stage that the next of them waits for.
            is_all: nothing will follow them.
        """
        pool = self[stage]
        taken = self._bound_call(pool, link) * pool.staying if is_all else 0
        return bound_calls(pool.plan, waiting, pool.starting, taken)

    def level(self, counts: Sequence[StageCounts]) -> None:
        """Set what a call of each stage may carry, by what tasks cost and what became of them."""
        loads = [self._describe(stage, seen) for stage, seen in enumerate(counts)]
        for pool, size in zip(self._pools, level_calls(loads), strict=True):
            pool.call = size

    def _describe(self, stage: int, seen: StageCounts) -> StageLoad:
        pool = self._pools[stage]
        batch, large = pool.plan.batch_size, self.find_bytes_in(stage)
        pace = most = bound_call(pool.cost, large, batch)
        if pool.chain.writes:
            most = bound_call(pool.cost, large, batch, SINK_SECONDS)
        ratio = find_ratio(seen.tasks_in, seen.tasks_out)
        return StageLoad(most, pool.plan.group or batch, pool.takers, ratio, pace)

    def size_call(self, stage: int, waiting: int, link: int = 0) -> int:
        """Return slots that its next call may carry.

        Args:
            waiting: slots.
            link: in a chain, the number of the stage that the next of them waits for.
        """
        pool = self[stage]
        batch = pool.plan.batch_size
        if pool.plan.timeout is not None:
            return batch  # the rest of a long call would have to wait for it
        return size_call(self._bound_call(pool, link), batch, waiting, pool.staying)

    def _bound_call(self, pool: Pool, link: int) -> int:
        """Return slots that a call of it may carry, by what they cost."""
        if not link:
            return pool.call
        # A worker has given them back, since it had more to do than a call's worth.
        seconds = SPILL_SECONDS_OF_SINKS if pool.chain.writes else SPILL_SECONDS
        return bound_call(pool.costs[link], pool.cost.bytes_out, pool.plan.batch_size, seconds)

    def make_room(self, stage: int, tasks: int) -> int:
        """Have a stage's queue hold so many tasks for a call, which are returned."""
        self[stage].call = max(self[stage].call, tasks)
        return tasks

    def can_write(self, queue: StageQueue) -> bool:
        """Return whether something waits for the sink, and a worker can take it."""
        return len(queue) > 0 and self.has_room(len(self) - 1, 1)

    def bound_queue(self, stage: int) -> int:
        """Return slots that may wait for a stage."""
        pool = self[stage]
        return bound_queue(pool.call, pool.takers)

    def find_bytes_in(self, stage: int) -> float:
        """Return bytes of a task that comes to a stage; 0 where that is not known."""
        return self[stage - 1].cost.bytes_out if stage else 0.0

    def has_room(self, stage: int, most: int) -> bool:
        """Return whether a worker has fewer calls than `most`, and can take one."""
        return any(True for _ in self._list_free(stage, most))

    def submit(self, stage: int, batch: list[Slot], most: int) -> None:
        """Hand a batch to the worker that suits it, of those with fewer calls than `most`.

        There must be room. Blocks that slots share are handed over once.
        """
        free = list(self._list_free(stage, most))
        is_spread = any(worker.node != free[0].node for worker in free)
        near = _locate(batch) if is_spread else {}
        worker = choose_worker(
            ((Candidate(worker.node, len(worker.calls)), worker) for worker in free), near
        )
        assert worker is not None  # callers ask only where there is room
        picks, blocks = pack_batch(batch)
        number, worker.next_number = worker.next_number, worker.next_number + 1
        # A suspect goes stage by stage, so that it is known which one its worker dies of.
        entry = batch[0].link, batch[0].is_suspect
        data, receipt = worker.actor.run.remote(number, entry, picks, *blocks)
        if not worker.calls:
            worker.busy_since = self._now()
        call = Call(stage, worker, batch, data, number, size_in=len(batch), entry=entry)
        self.calls[receipt] = worker.calls[receipt] = call
        self._show(call)

    def proceed(self, stage: int, failed: Collection[bytes] = ()) -> bool:
        """Ask for the next part of a paused call of a stage; False where there is none.

        Args:
            failed: sources of which nothing more is made.
        """
        key = next((key for key, call in self.paused.items() if call.stage == stage), None)
        if key is None:
            return False
        call = self.paused.pop(key)
        opened = call.batch[0]
        left = opened.token if opened.source in failed else None
        call.data, receipt = call.worker.actor.proceed.remote(call.number, left)
        call.is_paused = False
        call.worker.busy_since = self._now()
        self.calls[receipt] = call
        _rename(call.worker.calls, key, receipt)
        return True

    def take_answer(self, reference: Any, packed: Plain) -> tuple[Call, Receipt]:  # noqa: ANN401
        """Return the call that has ended, and its receipt.

        Of a call with an answer that goes on it is the part that has ended; the rest is paused. A
        worker that should be replaced is drained.
        """
        call = self.calls[reference]
        worker = call.worker
        *_, opened, word, sentences = packed
        for sentence in sentences:
            self._report(sentence)
        if word and not worker.is_draining:
            self._pools[call.stage].recycled += 1
            worker.is_draining = True
        receipt = unpack_receipt(packed)
        made = get_local_object_locations([call.data])
        size = sum(_size_of(block) for block in made.values())
        call.counts.add(receipt.counts)
        call.size += size
        # Known before the call has ended, or the stage below would be sent as many as are quick.
        self[call.stage].cost.note_part(receipt.counts.tasks_out, size)
        if opened is not None:
            return self._pause(reference, OpenTask(*opened)), receipt
        self.drop_call(reference)
        counts = replace(call.counts, tasks_in=call.size_in)
        self[call.stage].costs[call.entry[0]].note(counts, call.size)
        return call, receipt

    def _pause(self, reference: Any, opened: OpenTask) -> Call:  # noqa: ANN401 - a reference
        """Keep a call for its next part; return this part, with the tasks that are over."""
        call, key = self.calls.pop(reference), object()
        over, rest = split_opened(call.batch, *opened)
        part = replace(call, batch=over, opened=rest[0])
        call.batch, call.is_paused, call.data = rest, True, None
        self.paused[key] = call
        _rename(call.worker.calls, reference, key)
        if call.is_shown and self._inflight:
            self._inflight.settle(part.sources)
        return part

    def skip_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that can't be made, since what it needs is lost."""
        call = self.calls[reference]
        call.worker.actor.skip.remote(call.number)
        self.drop_call(reference)

    def drop_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that has ended."""
        call = (self.paused if reference in self.paused else self.calls).pop(reference)
        worker = call.worker
        if worker.current is call:  # any other current call goes on
            worker.busy_since = self._now()
        del worker.calls[reference]
        if call.is_shown and self._inflight:
            self._inflight.settle(call.sources)
        self._end_drained(worker)

    def find_cost(self, worker: Worker, link: int) -> float | None:
        """Return seconds of a task that goes to a stage of its chain; None before one has."""
        return self[worker.stage].costs[link].seconds

    def list_calls(self) -> list[Call]:
        """Return all that are with workers."""
        return [*self.calls.values(), *self.paused.values()]

    def list_sources(self) -> set[bytes]:
        """Return sources that are with workers."""
        return {source for call in self.list_calls() for source in call.sources}

    def find_answered(self, worker: Worker) -> list[Any]:
        """Return the receipts that a lost worker gave before it died."""
        answered = []
        for receipt in [key for key in worker.calls if key not in self.paused]:
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
        """Return workers that take longer for a call than it may, and why.

        It may be answered by now.
        """
        now = self._now()
        return [overdue for pool in self._pools for overdue in pool.list_overdue(now)]

    def has(self, worker: Worker) -> bool:
        """Return False where the worker was taken out."""
        return worker in self._pools[worker.stage].workers

    def list_workers(self) -> Iterator[Worker]:
        """Return all workers, stage by stage."""
        return (worker for pool in self._pools for worker in pool.workers)

    def look(self) -> list[PoolState]:
        """Return how each pool stands."""
        now = self._now()
        return [pool.look(now) for pool in self._pools]

    def stop(self) -> None:
        """End every worker."""
        for worker in list(self.list_workers()):
            self._end(worker)
        remove(find_folder(*self._site, str(ray.get_runtime_context().get_node_id())))

    def _list_free(self, stage: int, most: int) -> Iterator[Worker]:
        """Yield workers with fewer calls than `most` that can take one."""
        for worker in self._pools[stage].workers:
            if worker.is_open and len(worker.calls) < most and not worker.has_suspects:
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
        self.unplaced = {word: kept for word, kept in self.unplaced.items() if kept is not worker}
        self.preparing = {word: kept for word, kept in self.preparing.items() if kept is not worker}

    def _show(self, call: Call) -> None:
        """Keep the table of work in flight true.

        Whatever is with a worker may be what it works on: it goes on to its next call while the
        answer of the one before is on its way.
        """
        if call.worker.is_here and self._inflight:
            self._inflight.queue(call.sources)
            self._inflight.process(call.sources)
            call.is_shown = True


class RayData:
    """Data of calls, as Ray's own books in this process know it; see `DataPort`."""

    def __init__(self, here: str) -> None:
        self._here = here
        self._turn = count()

    def find_homes(self, blocks: Sequence[Any]) -> Mapping[Any, Collection[str]]:
        """Return the nodes on which each block lies."""
        known = get_local_object_locations(list(blocks))
        return {block: position.get("node_ids") or () for block, position in known.items()}

    def copy(self, block: Any, avoid: Collection[str]) -> Any | None:  # noqa: ANN401 - a reference
        """Begin a copy on another node, in turn; on the driver's where there is no other."""
        alive = [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]
        others = [node for node in alive if node not in avoid]
        others = [node for node in others if node != self._here] or others
        if not others:
            return None
        there = NodeAffinitySchedulingStrategy(others[next(self._turn) % len(others)], soft=False)
        return _copy_block.options(scheduling_strategy=there).remote(block)

    def is_made(self, copy: Any) -> bool | None:  # noqa: ANN401 - a reference
        """Return whether a copy is there; None where it can't be made."""
        if not ray.wait([copy], timeout=0, fetch_local=False)[0]:
            return False
        # An error travels with the reference; a copy lies on a node.
        return True if self.find_homes([copy])[copy] else None


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _copy_block(block: list[Any]) -> list[Any]:
    return block


def _locate(batch: list[Slot]) -> Mapping[str, int]:
    """Return bytes of a batch's input by node, as far as Ray's own books in this process say."""
    blocks = {id(slot.block): slot.block for slot in batch if not isinstance(slot.block, list)}
    found: Counter[str] = Counter()
    for position in get_local_object_locations(list(blocks.values())).values():
        for node in position.get("node_ids") or ():
            found[node] += _size_of(position)
    return found


def _rename(calls: dict[Any, Call], key: Any, new: Any) -> None:  # noqa: ANN401 - any keys
    """Give a call another key, in its old place: the one that is worked on stays the first."""
    renamed = {new if known is key else known: call for known, call in calls.items()}
    calls.clear()
    calls.update(renamed)


def _size_of(position: Mapping[str, Any]) -> int:
    return position.get("object_size") or 0
