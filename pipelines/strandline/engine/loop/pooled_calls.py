"""Tracks the calls that workers are processing: the worker of each call, and paused calls.

Each engine starts, queries, and kills workers in its own way. The driver decides how to handle a
loss. The module must not depend on how results are sent.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.call.stage.receipts import OpenTask
from strandline.engine.call.wire import Plain, unpack_receipt
from strandline.engine.core.pools import FreeWorkers, PoolState
from strandline.engine.core.ports import Leave
from strandline.engine.core.workers import Call, Worker
from strandline.engine.flow.chains import Chain
from strandline.engine.flow.stage_queue import StageQueue
from strandline.engine.loop.pool_sizes import SizedPools
from strandline.engine.preemption.fitting import is_late
from strandline.plan.receipt import Receipt, StageCounts
from strandline.storage.volume.inflight import InFlightTable

_NOWHERE: Mapping[str, int] = MappingProxyType({})


class PooledCalls(SizedPools, ABC):
    """All pools of a run, and the calls that their workers are processing.

    Args:
        chains: the chains of the run; each gets a pool.
        inflight: table of the work in progress on this node's workers.
        now: returns seconds from any fixed point.

    Attributes:
        report: receives the reports of stages in the workers.
        calls: running calls, each under a unique key.
        paused: paused calls, which continue on request, each under a unique key.
        has_gone: whether a worker has ended or was lost; the scaler resets the flag after its
            check.
    """

    def __init__(
        self,
        chains: Sequence[Chain],
        inflight: InFlightTable | None,
        now: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(chains)
        self.report = report
        self._inflight = inflight
        self._now = now
        self.calls: dict[Any, Call] = {}
        self.paused: dict[Any, Call] = {}
        self.has_gone = False
        self._free: dict[int, FreeWorkers[Worker]] = {}

    def level(self, counts: Sequence[StageCounts]) -> None:
        """See `SizedPools.level`."""
        self._load.look(self._now(), self.read_driven())
        super().level(counts)

    def read_driven(self) -> float:
        """Return the CPU seconds that the driver's loop has used."""
        return time.thread_time()

    def add(self, worker: Worker) -> None:
        """Add a worker that was started."""
        pool = self._pools[worker.stage]
        pool.workers.append(worker)
        pool.started += 1
        self.forget(worker.stage)

    def settle(self, worker: Worker) -> None:
        """Record that a worker is set up and takes calls."""
        worker.is_ready, worker.ready_since = True, self._now()
        self.forget(worker.stage)

    def enter(self, key: Any, call: Call) -> None:  # noqa: ANN401 - any key
        """Record that a call was sent to a worker."""
        worker = call.worker
        if not worker.calls:
            worker.busy_since = worker.call_since = self._now()
        self.calls[key] = worker.calls[key] = call
        if worker.has_suspects:
            self.forget(call.stage)  # a suspect must be its worker's only call
        self._show(call)

    def make_call(self, worker: Worker, batch: list[Slot]) -> Call:
        """Create the next call of a worker. The call has no key yet."""
        number, worker.next_number = worker.next_number, worker.next_number + 1
        # Run a suspect stage by stage, so that a worker's death shows which stage is to blame.
        entry = batch[0].link, batch[0].is_suspect
        return Call(worker.stage, worker, batch, None, number, size_in=len(batch), entry=entry)

    def take_part(self, key: Any, packed: Plain, size: int) -> tuple[Call, Receipt]:  # noqa: ANN401
        """Accept a finished call or part. Return the call and its receipt.

        If the call continues, return the finished part and pause the rest. A worker that should be
        replaced is drained.

        Args:
            packed: the receipt, followed by the task with which the next part begins, the reason to
                replace the worker, and the reports of its stages.
            size: bytes of the output.
        """
        call = self.calls[key]
        *_, opened, word, sentences = packed
        for sentence in sentences:
            self.report(sentence)
        if word and not call.worker.is_draining:
            self._pools[call.stage].recycled += 1
            call.worker.is_draining = True
            self.forget(call.stage)
        receipt = unpack_receipt(packed)
        call.counts.add(receipt.counts)
        call.size += size
        # Update the cost before the call ends; otherwise the next stage would get calls that are
        # sized for small tasks.
        self[call.stage].cost.note_part(receipt.counts.tasks_out, size)
        if opened is not None:
            return self._pause(key, OpenTask(*opened)), receipt
        self.drop_call(key)
        counts = replace(call.counts, tasks_in=call.size_in)
        self[call.stage].costs[call.entry[0]].note(counts, call.size)
        return call, receipt

    def proceed(self, stage: int, failed: Collection[bytes] = ()) -> bool:
        """Request the next part of a stage's paused call. Return False if no call is paused.

        Args:
            failed: failed sources, whose tasks produce no further output.
        """
        key = next((key for key, call in self.paused.items() if call.stage == stage), None)
        if key is None:
            return False
        call = self.paused.pop(key)
        opened = call.batch[0]
        new = self._ask_on(call, opened.token if opened.source in failed else None)
        call.is_paused = False
        call.worker.busy_since = self._now()
        self.calls[new] = call
        _rename(call.worker.calls, key, new)
        return True

    def take_split(
        self,
        key: Any,  # noqa: ANN401
        packed: Plain,
        size: int,
        kept_tokens: Collection[bytes],
        idle_tokens: Collection[bytes] | None,
    ) -> tuple[Call, Receipt, list[Slot]]:
        """Split a running call. Return the finished part, its receipt, and slots to requeue.

        Args:
            packed, size: see `take_part`.
            kept_tokens: tokens of the tasks that the call keeps.
            idle_tokens: tokens of tasks that have not started. None means all tasks that the call
                does not keep.
        """
        call, receipt = self.calls[key], unpack_receipt(packed)
        away = [slot for slot in call.batch if slot.token not in kept_tokens]
        back = [slot for slot in away if idle_tokens is None or slot.token in idle_tokens]
        part = replace(call, batch=[slot for slot in away if slot not in back])
        call.batch = [slot for slot in call.batch if slot.token in kept_tokens]
        call.counts.add(receipt.counts)
        call.size, call.size_in = call.size + size, call.size_in - len(back)
        self[call.stage].cost.note_part(receipt.counts.tasks_out, size)
        if call.is_shown and self._inflight:
            self._inflight.settle([slot.source for slot in away])
        return part, receipt, back

    def relieve(self, queues: Sequence[StageQueue]) -> None:
        """Reclaim work that waits behind a slow task.

        The reclaimed work is the waiting tasks of the same call, and, if another worker is idle,
        later calls of the same worker.
        """
        for pool, queue in zip(self._pools, queues, strict=True):
            for call in pool.list_late(self._now()):
                call.split_at = self._now()
                self._ask_split(call)
            if not len(queue):  # otherwise the idle worker takes queued tasks
                for call in pool.list_stuck(self._now()):
                    call.is_asked_back = True
                    self._ask_back(call)

    def leave_late(self, leave: Leave) -> None:
        """Abandon calls that will not end in time, if their stages support it.

        Args:
            leave: deadlines of calls.
        """
        for worker in self.list_workers():
            self.leave_if_late(worker, leave)

    def leave_if_late(self, worker: Worker, leave: Leave) -> None:
        """Abandon a worker's calls if the current call is late and a stage supports it."""
        can_leave = any(stage.stage.stops_early for stage in self[worker.stage].chain.stages)
        if can_leave and is_late(worker, self.find_cost, leave, self._now()):
            worker.is_leaving = True
            self._ask_leave(worker)

    def has_room(self, stage: int, most: int) -> bool:
        """Return whether some free worker has fewer than `most` calls."""
        return self._find_free(stage).has(most)

    def can_write(self, queue: StageQueue) -> bool:
        """Return whether work waits for the sink and some worker can take it."""
        return len(queue) > 0 and self.has_room(len(self) - 1, 1)

    def drain(self, worker: Worker) -> None:
        """Stop sending calls to a worker, and end the worker once its calls are done."""
        worker.is_draining = True
        self.forget(worker.stage)
        self._end_drained(worker)

    def remove(self, worker: Worker) -> list[Call]:
        """Remove a lost worker. Return its calls, oldest first."""
        self._pools[worker.stage].lost += 1
        self._end(worker)
        calls = list(worker.calls.values())
        # Iterate over a copy, because `drop_call` removes entries.
        for receipt in list(worker.calls):
            self.drop_call(receipt)
        return calls

    def drop_call(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        """Forget a call that has ended."""
        call = (self.paused if reference in self.paused else self.calls).pop(reference)
        worker = call.worker
        if worker.current is call:  # otherwise, the current call keeps its start times
            worker.busy_since = worker.call_since = self._now()
        del worker.calls[reference]
        self.forget(call.stage)
        if call.is_shown and self._inflight:
            self._inflight.settle(call.sources)
        self._end_drained(worker)

    def find_cost(self, worker: Worker, link: int) -> float | None:
        """Return the seconds for a task that enters the chain at a stage, or None if unknown."""
        return self[worker.stage].costs[link].seconds

    def list_calls(self) -> list[Call]:
        """Return all calls that workers are processing."""
        return [*self.calls.values(), *self.paused.values()]

    def list_sources(self) -> set[bytes]:
        """Return the sources that workers are processing."""
        return {source for call in self.list_calls() for source in call.sources}

    def list_overdue(self) -> list[tuple[Worker, str]]:
        """Return workers whose call exceeds its time limit, with reasons.

        The result of such a call may have arrived in the meantime.
        """
        now = self._now()
        return [overdue for pool in self._pools for overdue in pool.list_overdue(now)]

    def list_slow(self) -> list[tuple[Worker, str]]:
        """Return workers whose call takes far longer than usual; see `Pool.list_slow`."""
        now = self._now()
        return [slow for pool in self._pools for slow in pool.list_slow(now)]

    def has(self, worker: Worker) -> bool:
        """Return whether the worker still belongs to its pool."""
        return worker in self._pools[worker.stage].workers

    def list_workers(self) -> Iterator[Worker]:
        """Yield all workers, stage by stage."""
        return (worker for pool in self._pools for worker in pool.workers)

    def look_apart(self) -> list[PoolState]:
        """Return the state of each stage, in order; see `Pool.look_apart`."""
        now = self._now()
        return [state for pool in self._pools for state in pool.look_apart(now)]

    def sum_busy(self) -> float:
        """Return the total seconds of work on running calls."""
        now = self._now()
        return sum(each.measure_work(now) for each in self.list_workers())

    def look(self) -> list[PoolState]:
        """Return the state of each pool."""
        now = self._now()
        return [pool.look(now) for pool in self._pools]

    def _pause(self, reference: Any, opened: OpenTask) -> Call:  # noqa: ANN401 - a reference
        """Pause a call until its next part. Return the finished part, with the finished tasks."""
        call, key = self.calls.pop(reference), object()
        over, rest = split_opened(call.batch, *opened)
        part = replace(call, batch=over, opened=rest[0])
        call.batch, call.is_paused, call.data = rest, True, None
        self.paused[key] = call
        _rename(call.worker.calls, reference, key)
        if call.is_shown and self._inflight:
            self._inflight.settle(part.sources)
        return part

    def forget(self, stage: int) -> None:
        """See `SizedPools.forget`."""
        super().forget(stage)
        self._free.pop(stage, None)

    def _find_free(self, stage: int) -> FreeWorkers[Worker]:
        """Return the workers that can take a call. `forget` clears this cache on every change."""
        if stage not in self._free:
            self._free[stage] = FreeWorkers(
                (worker.node, len(worker.calls), worker)
                for worker in self._pools[stage].workers
                if worker.is_open and not worker.has_suspects
            )
        return self._free[stage]

    def _end_drained(self, worker: Worker) -> None:
        if worker.is_draining and not worker.calls and self.has(worker):
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        worker.let_go()
        pool = self._pools[worker.stage]
        pool.workers.remove(worker)
        self.forget(worker.stage)
        pool.past += self._now() - worker.ready_since if worker.is_ready else 0.0
        self.has_gone = True
        self._kill(worker)

    def stop(self) -> None:
        """End every worker."""
        # Iterate over a copy, because `_end` removes workers.
        for worker in list(self.list_workers()):
            self._end(worker)

    def start_wanted(self, stage: int, waiting: int) -> None:
        """Start workers for waiting slots, in pools that choose their own size.

        Args:
            stage: index of the stage.
            waiting: number of waiting slots.
        """

    def submit(self, stage: int, batch: list[Slot], most: int) -> None:
        """Send a batch to the most suitable worker with fewer than `most` calls.

        There must be a free worker; see `has_room`.
        """
        free = self._find_free(stage)
        call = self.make_call(free.take(most, self._locate(free, batch)), batch)
        self.enter(self._send(call), call)

    def _locate(self, free: FreeWorkers[Worker], batch: list[Slot]) -> Mapping[str, int]:  # noqa: ARG002
        """Return the bytes of a batch's input by node; empty if locality does not matter."""
        return _NOWHERE

    @abstractmethod
    def _send(self, call: Call) -> Any:  # noqa: ANN401 - any key
        """Send a call to its worker. Return the key of the call."""

    @abstractmethod
    def _ask_on(self, call: Call, left: bytes | None) -> Any:  # noqa: ANN401 - any key
        """Request the next part of a call. Return the call's new key.

        Args:
            left: the token of the current task if its output is no longer needed; otherwise None.
        """

    @abstractmethod
    def _ask_back(self, call: Call) -> None:
        """Request that a worker return a call that has not started."""

    @abstractmethod
    def _ask_split(self, call: Call) -> None:
        """Request that a worker return all tasks of a running call except the current task."""

    @abstractmethod
    def _ask_leave(self, worker: Worker) -> None:
        """Request that a worker abandon its calls and return them."""

    @abstractmethod
    def _kill(self, worker: Worker) -> None:
        """Kill a worker immediately, and stop waiting for its results."""

    def _show(self, call: Call) -> None:
        """Add a call to the table of work in flight.

        Every call that was sent to a worker counts as being processed: the worker continues with
        its next call before the result of the previous call has arrived.
        """
        if call.worker.is_here and self._inflight:
            self._inflight.queue(call.sources)
            self._inflight.process(call.sources)
            call.is_shown = True


def _rename(calls: dict[Any, Call], key: Any, new: Any) -> None:  # noqa: ANN401 - any keys
    """Change the key of a call, but not its position, so that the current call stays first."""
    renamed = {new if known is key else known: call for known, call in calls.items()}
    calls.clear()
    calls.update(renamed)
