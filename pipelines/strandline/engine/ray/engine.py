"""The Ray engine: list, dispatch, collect, and live through lost workers."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayError, RayTaskError

from strandline.engine.autoscaler.capacity import FirstWorkers
from strandline.engine.call.setup import FirstTimes, PackageMissingError, StageSetupError
from strandline.engine.call.wire import Plain
from strandline.engine.call.worker_page import WorkerAddress
from strandline.engine.core.call_size import FileFilling
from strandline.engine.core.chains import Chain, cut_chains
from strandline.engine.core.pools import DEATHS_PER_TASK, PoolState
from strandline.engine.core.ports import Ending, Leave, WorkCost
from strandline.engine.core.worker_pool import Call, Worker
from strandline.engine.preemption.departures import Departures, Evacuation
from strandline.engine.preemption.fitting import fits, fits_next, is_hopeless, predict_ends
from strandline.engine.preemption.last_words import explain_hang
from strandline.engine.preemption.nodes import LostNodes
from strandline.engine.ray.connection import first_line, unwrap
from strandline.engine.ray.demand import Demand, read_full_size
from strandline.engine.ray.driver import POLL_SECONDS, DrivenEngine, Driver, DriverInputs
from strandline.engine.ray.losses import LOSSES, Losses, OverdueError, is_of_node
from strandline.engine.ray.pool import RayData, RayPools
from strandline.engine.ray.scaler import Scaler, find_nodes, list_nodes
from strandline.engine.ray.worker import LinkWatch

LISTING_SECONDS = 0.05
LEAVE_SECONDS = 0.1  # from one look at nodes that are going to the next


class _RayDriver(Driver):
    def __init__(self, inputs: DriverInputs) -> None:
        super().__init__(inputs)
        plan, control, outputs = inputs.plan, inputs.control, inputs.outputs
        self._counting: Any = None
        self._is_listing_slow = False
        name = f"{plan.namespace}.{plan.name}"
        chains = self.chains
        report = FirstTimes(control.note)
        self._pools = RayPools(
            name, chains, outputs, control.inflight, now=control.now, report=report
        )
        plans = [chain.plan for chain in chains]
        self._here = str(ray.get_runtime_context().get_node_id())
        self._marks = LostNodes(self._here)
        self._scaler = Scaler(plans, self._pools, outputs, control.note, control.now, self._marks)
        self._first_workers = FirstWorkers(inputs.wait)
        self._demand = Demand(read_full_size(os.environ), control.now)
        self._losses = Losses(
            self._flow, self._pools, self._ledger, control, self._incidents, self._marks
        )
        target = plan.stages[-1].target_bytes
        self._filling = None if target is None else FileFilling(target)
        self._departures = Departures(self._marks)
        self._evacuation = Evacuation(self._flow, self._pools.list_calls, RayData(self._here))
        self._pending: Mapping[str, int] = {}
        self._leave_due = self._learn_due = 0.0
        self._link_watch = LinkWatch(control.now, report)

    def _cut(self, inputs: DriverInputs) -> list[Chain]:
        # A sink that writes to a folder of this node must not keep all else on it.
        is_elsewhere = inputs.connection.capacity is None
        return cut_chains(
            inputs.plan.stages, is_sink_apart=inputs.outputs.is_on_driver and is_elsewhere
        )

    def _run(self) -> None:
        while not self._is_done():
            self._begin_turn()
            if self._flow.is_stopped and self._must_leave():
                break
            self._losses.judge()
            if self._losses.replays:
                self._losses.replays.release(self._pools.list_sources())
            if self._listing.is_ended and self._flow.suspects and self._flow.is_idle():
                self._flow.release_suspects()
            self._pools.level([queue.counts for queue in self._flow.queues])
            self._admit()
            self._scale()
            self._dispatch()
            self._collect()
            self._ledger.flush_due()

    def _must_leave(self) -> bool:
        """Return whether nothing that is under way, or waits to be written, can end in time."""
        if self._control.must_leave():
            return True
        self._pools.leave_late(self._control.find_leave())
        is_writing = self._flow.fills_files and self._pools.can_write(self._flow.queues[-1])
        return bool(self._pools.calls) and not is_writing and not self._awaits_calls()

    def _awaits_calls(self) -> bool:
        """Return whether a call is under way that may end in time."""
        if not self._pools.calls:
            return False
        leave, now = self._control.find_leave(), self._control.now()
        return not is_hopeless(self._pools.list_workers(), self._pools.find_cost, leave, now)

    def _stop_workers(self) -> None:
        self._pools.stop()

    def _count_pools(self) -> Sequence[PoolState]:
        return self._pools.look_apart()

    def _has_losses(self) -> bool:
        # A call that is left before its end may have reported its children and not itself.
        return self._losses.anything_died or bool(self._pools.calls or self._pools.paused)

    def _count_leaving(self) -> Mapping[str, int]:
        return self._departures.sum_up(self._pending)

    def _measure_work(self) -> WorkCost:
        work = self._losses.work
        return WorkCost(work.worked, work.lost)

    def _end(self) -> Ending:
        if self._flow.is_stopped:  # sources that are begun and not finished begin anew
            self._losses.work.lose_rest(self._pools.sum_busy())
        return super()._end()

    def _find_bottleneck(self) -> str | None:
        chain = self._scaler.bottleneck
        return None if chain is None else self._flow.find_slowest(chain)

    def _is_done(self) -> bool:
        if self._pools.calls or self._admission.asked is not None:
            return False
        if self._flow.is_stopped:
            # Results of a call that goes on are queued no more, but to fill a file.
            return not (self._flow.fills_files and self._pools.can_write(self._flow.queues[-1]))
        if self._pools.paused or self._losses.replays or self._losses.is_judging:
            return False
        return self._listing.is_ended and self._flow.is_idle() and not self._flow.suspects

    def _admit(self) -> None:
        room = self._pools.bound_queue(0) - len(self._flow.queues[0])
        limit = LISTING_SECONDS if self._flow.is_idle() else 0.0
        self._is_listing_slow = self._admission.ask(is_full=room <= 0, limit=limit, room=room)

    def _scale(self) -> None:
        self._demand.look(self._flow.queues, self._admission.sources_left)
        if self._flow.is_stopped or (self._flow.is_idle() and not self._admission.is_promising):
            # No worker where nothing is left to do; but where all that was listed was left so far,
            # the first ones start beside the process that keeps the ledger.
            self._scaler.bottleneck = None
        elif self._scaler.is_due(self._flow.queues):
            for worker in self._scaler.look(self._flow.queues, self._admission.sources_left):
                self._lose(worker, NodeDiedError("its node has died"))
            self._check_room()

    def _check_room(self) -> None:
        now, pools = self._control.now(), self._pools.look()
        overdue = self._first_workers.find_overdue(now, self._flow.queues, pools)
        if overdue is not None:
            name = self._flow.queues[overdue].name
            raise self._first_workers.refuse(name, self._scaler.below.get(name))

    def _dispatch(self) -> None:
        for stage in reversed(range(len(self._pools))):
            filling = self._filling if stage + 1 == len(self._pools) else None
            self._proceed(stage)  # begun calls go on before more begin
            while self._pools.has_room_below(stage, self._flow.queues):
                waiting, link = self._flow.look_ahead(stage)
                most = self._bound_calls(stage, waiting, link)
                if not self._pools.has_room(stage, most):
                    break
                most_slots, least = self._pools.size_call(stage, waiting, link), 0
                if filling is not None:
                    most_slots, least = self._fill(filling, stage, waiting)
                batch = self._flow.next_batch(stage, most_slots, least)
                if not batch:
                    break
                if filling is not None:
                    filling.begin()
                self._pools.submit(stage, batch, most)

    def _fill(self, filling: FileFilling, stage: int, waiting: int) -> tuple[int, int]:
        is_over = self._admission.sources_left == 0 and not self._flow.is_busy_above(stage)
        is_over = is_over or (self._flow.is_stopped and not self._awaits_calls())
        return self._pools.fill(filling, waiting, self._control.now(), may_grow=not is_over)

    def _proceed(self, stage: int) -> None:
        while not self._flow.is_stopped and self._pools.has_room_below(stage, self._flow.queues):
            if not self._pools.proceed(stage, self._flow.failed):
                return

    def _bound_calls(self, stage: int, waiting: int, link: int) -> int:
        if self._flow.has_suspects(stage):
            return 1  # a suspect goes to a worker that has nothing else
        is_all = self._admission.sources_left == 0 and not self._flow.is_busy_above(stage)
        return self._pools.bound_calls(stage, waiting, link, is_all=is_all)

    def _collect(self) -> None:
        self._look_around()
        waiting = [*self._pools.calls, *self._pools.unplaced, *self._pools.preparing]
        answers = (self._ledger.watch, self._admission.asked, self._counting)
        waiting += [answer for answer in answers if answer is not None]
        if not waiting:
            time.sleep(LISTING_SECONDS)
            return
        ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        if not ready:
            limit = LISTING_SECONDS if self._is_listing_slow else POLL_SECONDS
            ready, _ = ray.wait(waiting, timeout=self._ledger.limit_wait(limit))
        # A worker that can't be set up fails its calls too; its own word comes first.
        receipts = [result for result in ready if result in self._pools.calls]
        for reference in ready:
            if reference not in self._pools.calls:
                self._handle(reference)
        self._take_receipts([receipt for receipt in receipts if receipt in self._pools.calls])

    def _handle(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        if reference in self._pools.unplaced:
            self._take_worker(reference, self._pools.unplaced, self._pools.take_placed)
        elif reference in self._pools.preparing:
            self._take_worker(reference, self._pools.preparing, self._pools.take_ready)
        elif reference == self._admission.asked:
            self._admission.take(self._get(reference))
        elif reference == self._counting:
            self._finished, self._counting = self._get(reference), None
        elif reference == self._ledger.watch:
            raise self._ledger.explain()

    def _look_around(self) -> None:
        """Now and then: which nodes go, is the local one alive, how many sources are finished?"""
        if self._marks.leaving and self._control.now() >= self._leave_due:
            self._leave_nodes()  # calls on a leaving node have little time
        if not self._is_look_due():
            return
        self._connection.check_alive()
        self._learn_nodes()
        self._take_notices()
        if self._ledger.is_tracked and self._counting is None:
            self._counting = self._ledger.count_finished()
        for worker, words in self._pools.list_overdue():
            self._lose(worker, OverdueError(explain_hang(words, worker.ask_stacks(time.sleep))))
        self._link_watch.look(self._pools.list_workers())
        self._pools.relieve(self._flow.queues)

    def _take_notices(self) -> None:
        notices, now = self._control.read_notices(), self._control.now()
        sentences = self._departures.take(notices, find_nodes, now)
        if sentences:
            for sentence in sentences:
                self._control.note(sentence)
            self._pools.has_gone = True  # so that others are started at once
            self._leave_nodes()

    def _leave_nodes(self) -> None:
        """Let what fits end on nodes that are going, and take what else is there away."""
        now = self._control.now()
        self._leave_due = now + LEAVE_SECONDS
        self._marks.expire(now)
        pending: Counter[str] = Counter()
        for worker in list(self._pools.list_workers()):
            goes_at = self._marks.leaving.get(worker.node)
            if goes_at is not None:
                pending[worker.node] += self._leave_worker(worker, goes_at, now)
        if not self._flow.is_stopped:  # a stopped run needs no data there
            pending += self._evacuation.look({*self._marks.leaving, *self._marks.gone})
        self._pending = self._departures.settle(pending, now)

    def _leave_worker(self, worker: Worker, goes_at: float, now: float) -> int:
        """Give a worker of a node that is going nothing more; return its calls that will end."""
        if not worker.is_draining:
            self._pools.drain(worker)
            for reference in self._pools.find_answered(worker):
                self._take_receipt(reference)
        leave = Leave(goes_at, goes_at)
        self._pools.leave_if_late(worker, leave)
        for end in predict_ends(worker, self._pools.find_cost, now)[1:]:
            # A call that does not fit would be begun and lost. One that fits stays: it may be begun
            # by now.
            if not fits(end, leave, now):
                self._take_back(end.call)
        ends = predict_ends(worker, self._pools.find_cost, now)
        fitting = sum(fits(end, leave, now) for end in ends)
        paused = sum(call.is_paused for call in worker.calls.values())
        if worker.calls and (now >= goes_at or (paused and not fits_next(worker, goes_at, now))):
            # The worker's node is missed only later, and its work would wait until then.
            self._lose(worker, NodeDiedError("its node is going"))
            return 0
        return fitting + paused

    def _take_back(self, call: Call) -> None:
        """Queue a call's work again that its worker has not begun."""
        reference = next(key for key, each in call.worker.calls.items() if each is call)
        self._pools.skip_call(reference)
        self._requeue(call)

    def _requeue(self, call: Call) -> None:
        """Queue a call's work again, with no blame for it."""
        batch = self._losses.keep_current(call)
        self._flow.requeue(call.stage, batch, 0, holds=False, most_deaths=DEATHS_PER_TASK)

    def _learn_nodes(self) -> None:
        """Learn which nodes have died: no source is to blame for workers that went along."""
        now = self._control.now()
        if self._is_ray_stopping():
            return  # Ray would not answer
        if now >= self._learn_due:  # a node may take the data of thousands of tasks along
            self._learn_due = now + LEAVE_SECONDS
            self._losses.forgive(self._marks.learn(list_nodes()[1]))

    def _get(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the ledger answers
        """Return an answer of the ledger; where it has died, the watch knows why."""
        try:
            return ray.get(reference)
        except RayTaskError as error:
            raise unwrap(error) from None
        except RayError:
            raise self._ledger.explain() from None

    def _take_receipts(self, references: list[Any]) -> None:
        try:
            answers = ray.get(references)
        except RayError:  # a call failed; one look at each shows which
            for reference in references:
                if reference in self._pools.calls:
                    self._take_receipt(reference)
            return
        for reference, packed in zip(references, answers, strict=True):
            self._complete(reference, packed)

    def _complete(self, reference: Any, packed: Plain) -> None:  # noqa: ANN401 - a reference
        if not packed:  # the worker has given it back
            call = self._pools.calls[reference]
            self._pools.drop_call(reference)
            self._requeue(call)
            return
        call, receipt = self._pools.take_answer(reference, packed)
        if receipt.has_failures and self._is_ray_stopping():
            self._losses.anything_died = True  # the next attempt does it again
            return
        self._pools[call.stage].streak.end(call.entry)
        batch, receipt = self._losses.take_current(call, receipt)
        self._losses.work.note(batch, len(call.batch) - len(batch), receipt, call.opened)
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        if self._filling is not None and call.stage + 1 == len(self._pools):
            self._filling.note(receipt)
        self._flow.refuse_uniform(call.stage, receipt)
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(call.stage, batch, receipt, call.data, call.opened)

    def _take_receipt(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        call = self._pools.calls[reference]
        try:
            self._complete(reference, ray.get(reference))
        except LOSSES as error:
            self._lose(call.worker, error)
        except ObjectLostError as error:
            # The call has answered before, so its worker is lost with the answer.
            if call.counts.calls:
                self._lose(call.worker, NodeDiedError(first_line(error)))
                return
            self._pools.skip_call(reference)
            self._learn_nodes()  # data that goes with a node is missed as soon as that
            self._losses.lose_data(call, first_line(error))
        except RayTaskError as error:
            raise unwrap(error) from None

    def _take_worker(
        self,
        reference: Any,  # noqa: ANN401 - an object reference
        workers: dict[Any, Worker],
        take: Callable[[Any, WorkerAddress, str], None],
    ) -> None:
        try:
            address = ray.get(reference)
        except LOSSES as error:
            self._lose(workers.pop(reference), error)
        except RayTaskError as error:
            self._fail_setup(workers[reference], unwrap(error))
        else:
            take(reference, address, self._here)

    def _fail_setup(self, worker: Worker, error: Exception) -> None:
        # A package that is missing is so everywhere; anything else may be its node's or a server's.
        if not isinstance(error, StageSetupError) or isinstance(error, PackageMissingError):
            raise error
        self._losses.fail_setup(worker, error)
        self._scaler.avoid(worker.node)

    def _lose(self, worker: Worker, error: Exception) -> None:
        if not self._pools.has(worker):
            return
        answered = self._pools.find_answered(worker)
        for reference in answered:  # the worker did these before it died
            self._take_receipt(reference)
        if answered and isinstance(error, OverdueError):
            return  # the worker is on the next call now, and that one's time has only begun
        if is_of_node(error) or not worker.is_placed:
            self._scaler.avoid(worker.node)
        # A draining worker has gone with the last of its calls just now.
        if self._pools.has(worker):
            self._losses.take_out(worker, error)


class RayEngine(DrivenEngine):
    """The engine on pools of actors, one pool a stage."""

    driver = _RayDriver
