"""The transport on Ray: actors as workers, on nodes that may join and leave.

The driver handles only references and receipts, never data.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayError, RayTaskError

from strandline.engine.autoscaler.capacity import FirstWorkers
from strandline.engine.call.wire import Plain
from strandline.engine.core.ports import Leave
from strandline.engine.core.workers import Call, Worker
from strandline.engine.loop.pooled import LISTING_SECONDS, POLL_SECONDS, PooledTransport
from strandline.engine.loop.transport import RunState
from strandline.engine.preemption.departures import Departures, Evacuation
from strandline.engine.preemption.fitting import fits, fits_next, predict_ends
from strandline.engine.preemption.last_words import explain_hang
from strandline.engine.preemption.nodes import LostNodes
from strandline.engine.ray.admission import ActorAdmission
from strandline.engine.ray.connection import Connection, first_line, unwrap
from strandline.engine.ray.ledger_actor import RayLedger
from strandline.engine.ray.losses import LOSSES, Losses, OverdueError, is_of_node
from strandline.engine.ray.pool import RayData, RayPools
from strandline.engine.ray.scaling.demand import Demand, read_full_size
from strandline.engine.ray.scaling.scaler import Scaler, find_nodes, list_nodes
from strandline.engine.ray.worker import LinkWatch
from strandline.engine.worker.worker_page import WorkerAddress
from strandline.storage.outputs.ports import OutputLocation

LEAVE_SECONDS = 0.1  # interval between checks of departing nodes


class ActorTransport(PooledTransport):
    """A transport with actors as workers.

    Args:
        wait: seconds that a stage with work may wait for its first worker; None means no limit.
    """

    _pools: RayPools
    _losses: Losses
    _admission: ActorAdmission

    def __init__(
        self,
        state: RunState,
        admission: ActorAdmission,
        ledger: RayLedger,
        connection: Connection,
        pools: RayPools,
        outputs: OutputLocation,
        wait: float | None,
    ) -> None:
        control, flow = state.control, state.flow
        self._here = str(ray.get_runtime_context().get_node_id())
        self._marks = LostNodes(self._here)
        losses = Losses(flow, pools, ledger, control, state.incidents, self._marks)
        super().__init__(state, admission, pools, losses)
        self.dashboard = connection.dashboard
        self._connection = connection
        self._ledger = ledger
        plans = [pools[stage].plan for stage in range(len(pools))]
        self._scaler = Scaler(plans, pools, outputs, control.note, control.now, self._marks)
        self._first_workers = FirstWorkers(wait)
        self._demand = Demand(read_full_size(os.environ), control.now)
        self._departures = Departures(self._marks)
        self._evacuation = Evacuation(flow, pools.list_calls, RayData(self._here))
        self._pending: Mapping[str, int] = {}
        self._counting: Any = None
        self._look_due = self._leave_due = self._learn_due = 0.0
        self._link_watch = LinkWatch(control.now, pools.report)

    def turn(self) -> None:
        """See `Transport.turn`."""
        self._losses.judge()
        if self._losses.replays:
            self._losses.replays.release(self._pools.list_sources())
        super().turn()
        self._ledger.flush_due()

    def close(self) -> None:
        """See `Transport.close`. If Ray is dead, do nothing, because the actors died with it."""
        if self._connection.is_alive():
            super().close()
            self._ledger.stop()

    def has_calls(self) -> bool:
        """See `Transport.has_calls`."""
        return super().has_calls() or self._admission.asked is not None

    def holds_work(self) -> bool:
        """See `Transport.holds_work`."""
        return super().holds_work() or bool(self._losses.replays) or self._losses.is_judging

    def count_leaving(self) -> Mapping[str, int]:
        """See `Transport.count_leaving`."""
        return self._departures.sum_up(self._pending)

    def find_bottleneck(self) -> str | None:
        """See `Transport.find_bottleneck`."""
        chain = self._scaler.bottleneck
        return None if chain is None else self._flow.find_slowest(chain)

    def _scale(self) -> None:
        self._demand.look(self._flow.queues, self._admission.sources_left)
        if self._flow.is_stopped or (self._flow.is_idle() and not self._admission.is_promising):
            # Start no workers if no work is left. However, start the first workers while the
            # ledger's actor starts, unless the ledger has skipped a source so far.
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

    def _collect(self, limit: float) -> None:
        self._look_around()
        waiting = [*self._pools.calls, *self._pools.unplaced, *self._pools.preparing]
        answers = (self._ledger.watch, self._admission.asked, self._counting)
        waiting += [answer for answer in answers if answer is not None]
        if not waiting:
            time.sleep(LISTING_SECONDS)
            return
        ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        if not ready:
            ready, _ = ray.wait(waiting, timeout=self._ledger.limit_wait(limit))
        # Handle the error of a failed setup first, because a failed setup also fails the worker's
        # calls.
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
            self._ledger.finished, self._counting = self._get(reference), None
        elif reference == self._ledger.watch:
            raise self._ledger.explain()

    def _look_around(self) -> None:
        """Check departing nodes, the local Ray instance, and the count of finished sources."""
        if self._marks.leaving and self._control.now() >= self._leave_due:
            self._leave_nodes()  # more often, because calls on a leaving node have little time
        if self._control.now() < self._look_due:
            return
        self._look_due = self._control.now() + POLL_SECONDS
        self._connection.check_alive()
        self._learn_nodes()
        self._take_notices()
        if self._ledger.is_tracked and self._counting is None:
            self._counting = self._ledger.ask_finished()
        for worker, words in self._pools.list_overdue():
            self._lose(worker, OverdueError(explain_hang(words, worker.ask_stacks(time.sleep))))
        self._report_slow_calls(time.sleep)
        self._link_watch.look(self._pools.list_workers())
        self._pools.relieve(self._flow.queues)

    def _take_notices(self) -> None:
        notices, now = self._control.read_notices(), self._control.now()
        sentences = self._departures.take(notices, find_nodes, now)
        if sentences:
            for sentence in sentences:
                self._control.note(sentence)
            self._pools.has_gone = True  # start replacements immediately
            self._leave_nodes()

    def _leave_nodes(self) -> None:
        """Wait for calls that end in time on departing nodes, and move all other work away."""
        now = self._control.now()
        self._leave_due = now + LEAVE_SECONDS
        self._marks.expire(now)
        pending: Counter[str] = Counter()
        for worker in list(self._pools.list_workers()):
            goes_at = self._marks.leaving.get(worker.node)
            if goes_at is not None:
                pending[worker.node] += self._leave_worker(worker, goes_at, now)
        if not self._flow.is_stopped:  # a stopped run does not need the data on these nodes
            pending += self._evacuation.look({*self._marks.leaving, *self._marks.gone})
        self._pending = self._departures.settle(pending, now)

    def _leave_worker(self, worker: Worker, goes_at: float, now: float) -> int:
        """Stop sending work to a departing node's worker. Return how many of its calls remain."""
        if not worker.is_draining:
            self._pools.drain(worker)
            for reference in self._pools.find_answered(worker):
                self._take_receipt(reference)
        leave = Leave(goes_at, goes_at)
        self._pools.leave_if_late(worker, leave)
        for end in predict_ends(worker, self._pools.find_cost, now)[1:]:
            # Take back a call that can't end in time: it would begin and be lost. Keep any other
            # call, which may have begun.
            if not fits(end, leave, now):
                self._take_back(end.call)
        ends = predict_ends(worker, self._pools.find_cost, now)
        fitting = sum(fits(end, leave, now) for end in ends)
        paused = sum(call.is_paused for call in worker.calls.values())
        if worker.calls and (now >= goes_at or (paused and not fits_next(worker, goes_at, now))):
            # Do not wait until the death of the node is noticed: the work would wait too.
            self._lose(worker, NodeDiedError("its node is being removed"))
            return 0
        return fitting + paused

    def _take_back(self, call: Call) -> None:
        """Take back a call that has not begun, and requeue its work."""
        reference = next(key for key, each in call.worker.calls.items() if each is call)
        self._pools.skip_call(reference)
        self._requeue(call)

    def _learn_nodes(self) -> None:
        """Look for dead nodes, and remove the blame for workers that were lost with a node."""
        now = self._control.now()
        if self._is_ray_stopping():
            return  # a stopping Ray instance does not respond
        if now >= self._learn_due:  # not for each lost object: a node may hold thousands
            self._learn_due = now + LEAVE_SECONDS
            self._losses.forgive(self._marks.learn(list_nodes()[1]))

    def _get(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the ledger answers
        """Return a response of the ledger. If the ledger has died, raise the error of the watch."""
        try:
            return ray.get(reference)
        except RayTaskError as error:
            raise unwrap(error) from None
        except RayError:
            raise self._ledger.explain() from None

    def _take_receipts(self, references: list[Any]) -> None:
        try:
            answers = ray.get(references)
        except RayError:  # some call failed, so take each result separately
            for reference in references:
                if reference in self._pools.calls:
                    self._take_receipt(reference)
            return
        for reference, packed in zip(references, answers, strict=True):
            self._take_answer(reference, packed)

    def _take_answer(self, reference: Any, packed: Plain) -> None:  # noqa: ANN401 - a reference
        if not packed:  # the worker has returned the call
            call = self._pools.calls[reference]
            self._pools.drop_call(reference)
            self._requeue(call)
            return
        call, receipt = self._pools.take_answer(reference, packed)
        if receipt.has_failures and self._is_ray_stopping():
            self._losses.anything_died = True  # the next attempt repeats the work
            return
        self._pools[call.stage].streak.end(call.entry)
        self._complete(call, receipt, call.data)

    def _is_ray_stopping(self) -> bool:
        return self._connection.is_stopping(self._control.must_stop)

    def _take_receipt(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        call = self._pools.calls[reference]
        try:
            self._take_answer(reference, ray.get(reference))
        except LOSSES as error:
            self._lose(call.worker, error)
        except ObjectLostError as error:
            # A call that has already returned a part was lost together with its worker.
            if call.counts.calls:
                self._lose(call.worker, NodeDiedError(first_line(error)))
                return
            self._pools.skip_call(reference)
            self._learn_nodes()  # the node may be dead too
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
            worker = workers[reference]
            self._losses.fail_setup(worker, unwrap(error))
            self._scaler.avoid(worker.node)
        else:
            take(reference, address, self._here)

    def _lose(self, worker: Worker, error: Exception) -> None:
        if not self._pools.has(worker):
            return
        answered = self._pools.find_answered(worker)
        for reference in answered:  # results from before the death
            self._take_receipt(reference)
        if answered and isinstance(error, OverdueError):
            return  # the worker is already on the next call, which has just begun
        if is_of_node(error) or not worker.is_placed:
            self._scaler.avoid(worker.node)
        # If the worker was draining, its last result has already ended it.
        if self._pools.has(worker):
            self._losses.take_out(worker, error)
