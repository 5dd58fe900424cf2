"""The workers of every chain of stages, and the calls that they are processing.

The module starts, loads, drains, and replaces actors. The driver decides what a lost worker means
for the run, and the planner decides how many workers there should be.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.experimental import get_local_object_locations
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.call.setup import WorkerSite, find_folder, remove
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import Plain, pack_batch
from strandline.engine.core.pools import FreeWorkers
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.loop.pooled_calls import PooledCalls
from strandline.engine.ray.worker import start_worker
from strandline.engine.worker.worker_page import WorkerAddress
from strandline.plan.receipt import Receipt
from strandline.storage.outputs.ports import OutputLocation
from strandline.storage.volume.inflight import InFlightTable


class RayPools(PooledCalls):
    """All pools of a run.

    Args:
        pipeline: a unique name of the pipeline that is valid in file names.
        chains: the chains of the run; each gets a pool.
        outputs: location of the sinks' outputs.
        inflight: table of the work in progress on this node's workers.
        now: returns seconds from any fixed point.
        report: receives the reports of stages in the workers.

    Attributes:
        calls: running calls, by the reference of their receipt.
        unplaced: workers by the reference that resolves once they have started.
        preparing: workers by the reference that resolves once they are ready.
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
        super().__init__(chains, inflight, now, report)
        self._site = WorkerSite(pipeline, f"{outputs.writer}-{uuid4().hex[:12]}")
        self._outputs = outputs
        self.unplaced: dict[Any, Worker] = {}
        self.preparing: dict[Any, Worker] = {}

    def start_worker(self, stage: int, cpu: float, node: str | None = None) -> None:
        """Add a worker to a pool, without waiting for the worker.

        Args:
            stage: index of the pool.
            cpu: cores that the worker reserves.
            node: id of a node that should have capacity; another node is also accepted.
        """
        pool = self._pools[stage]
        joins_below = any(later.plan.group for later in self._pools[stage + 1 :])
        actor, placed, ready = start_worker(
            pool.chain, cpu, self._outputs, self._site, node, joins_below=joins_below
        )
        worker = Worker(stage, actor, cpu, node or "", self._now())
        self.add(worker)
        self.unplaced[placed] = worker
        self.preparing[ready] = worker

    def take_placed(self, reference: Any, address: WorkerAddress, here: str) -> None:  # noqa: ANN401 - of Ray
        """Record the node on which a worker has started.

        Args:
            here: the driver's node.
        """
        worker = self.unplaced.pop(reference)
        worker.settle(address, here)

    def take_ready(self, reference: Any, address: WorkerAddress, here: str) -> None:  # noqa: ANN401 - of Ray
        """Record that a worker is ready. `take_placed` may be called later for the same worker."""
        worker = self.preparing.pop(reference)
        worker.settle(address, here)
        self.settle(worker)

    def take_answer(self, reference: Any, packed: Plain) -> tuple[Call, Receipt]:  # noqa: ANN401
        """Accept a finished call or part. Return the call and its receipt; see `take_part`."""
        made = get_local_object_locations([self.calls[reference].data])
        return self.take_part(reference, packed, sum(map(_size_of, made.values())))

    def skip_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that can't run because its input is lost."""
        call = self.calls[reference]
        call.worker.actor.skip.remote(call.number)
        self.drop_call(reference)

    def find_answered(self, worker: Worker) -> list[Any]:
        """Return the references of receipts that a lost worker had returned before its death."""
        answered = []
        for receipt in [key for key in worker.calls if key not in self.paused]:
            with suppress(GetTimeoutError, RayError):
                ray.get(receipt, timeout=0)
                answered.append(receipt)
        return answered

    def stop(self) -> None:
        """See `PooledCalls.stop`."""
        super().stop()
        remove(find_folder(*self._site, str(ray.get_runtime_context().get_node_id())))

    def _locate(self, free: FreeWorkers[Worker], batch: list[Slot]) -> Mapping[str, int]:
        return _locate(batch) if free.is_spread else {}

    def _send(self, call: Call) -> Any:  # noqa: ANN401 - a reference
        picks, blocks = pack_batch(call.batch)  # passes a block that slots share only once
        call.data, receipt = call.worker.actor.run.remote(call.number, call.entry, picks, *blocks)
        return receipt

    def _ask_on(self, call: Call, left: bytes | None) -> Any:  # noqa: ANN401 - a reference
        call.data, receipt = call.worker.actor.proceed.remote(call.number, left)
        return receipt

    def _ask_back(self, call: Call) -> None:
        call.worker.actor.give_back.remote(call.number)

    def _ask_split(self, call: Call) -> None:
        """Do nothing: Ray's workers do not split calls."""

    def _ask_leave(self, worker: Worker) -> None:
        worker.actor.leave.remote()

    def _kill(self, worker: Worker) -> None:
        ray.kill(worker.actor)
        self.unplaced = {word: kept for word, kept in self.unplaced.items() if kept is not worker}
        self.preparing = {word: kept for word, kept in self.preparing.items() if kept is not worker}


class RayData:
    """The data of calls, according to Ray's records in this process; see `DataPort`."""

    def __init__(self, here: str) -> None:
        self._here = here
        self._turn = count()

    def find_homes(self, blocks: Sequence[Any]) -> Mapping[Any, Collection[str]]:
        """Return the nodes that hold each block."""
        known = get_local_object_locations(list(blocks))
        return {block: position.get("node_ids") or () for block, position in known.items()}

    def copy(self, block: Any, avoid: Collection[str]) -> Any | None:  # noqa: ANN401 - a reference
        """Begin a copy on another node. Nodes take turns. The driver's node is the last resort."""
        alive = [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]
        others = [node for node in alive if node not in avoid]
        others = [node for node in others if node != self._here] or others
        if not others:
            return None
        there = NodeAffinitySchedulingStrategy(others[next(self._turn) % len(others)], soft=False)
        return _copy_block.options(scheduling_strategy=there).remote(block)

    def is_made(self, copy: Any) -> bool | None:  # noqa: ANN401 - a reference
        """Return whether a copy is complete, or None if the copy has failed."""
        if not ray.wait([copy], timeout=0, fetch_local=False)[0]:
            return False
        # If a copy has failed, its reference contains the error, and no node has the data.
        return True if self.find_homes([copy])[copy] else None


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _copy_block(block: list[Any]) -> list[Any]:
    return block


def _locate(batch: list[Slot]) -> Mapping[str, int]:
    """Return the bytes of a batch's input by node, according to Ray's records in this process."""
    blocks = {id(slot.block): slot.block for slot in batch if not isinstance(slot.block, list)}
    found: Counter[str] = Counter()
    for position in get_local_object_locations(list(blocks.values())).values():
        for node in position.get("node_ids") or ():
            found[node] += _size_of(position)
    return found


def _size_of(position: Mapping[str, Any]) -> int:
    return position.get("object_size") or 0
