"""The loop of the Ray engine: list, dispatch, collect, and live through lost workers.

The driver moves references and receipts, never data. What a receipt means for a source is the
ledger's to say; what is due next is the flow's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import NodeDiedError, ObjectLostError, RayError, RayTaskError

from strandline.engine.call.wire import Plain
from strandline.engine.core.flow import Flow
from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.pools import RayOptions
from strandline.engine.core.ports import Control, Ending, Listing, Progress, conclude
from strandline.engine.core.worker_pool import Worker
from strandline.engine.ray.admission import Admission
from strandline.engine.ray.connection import Connection, connected, first_line, unwrap
from strandline.engine.ray.demand import Demand, read_full_size
from strandline.engine.ray.ledger_actor import LedgerPlace, RayLedger
from strandline.engine.ray.losses import LOSSES, Losses, OverdueError, is_of_node
from strandline.engine.ray.pool import RayPools
from strandline.engine.ray.scaler import Scaler
from strandline.plan.pipeline import PipelinePlan

POLL_SECONDS = 0.5
LISTING_SECONDS = 0.05


def run_ray(
    plan: PipelinePlan,
    listing: Listing,
    place: LedgerPlace | None,
    options: RayOptions,
    control: Control,
) -> Ending:
    """Run every source that the ledger releases, to the end or until told to stop.

    Args:
        place: of the ledger; None: nothing is tracked.

    Raises:
        StageSetupError, ShapeError, StageBrokenError, PoolBrokenError, LedgerLostError,
        ClusterLostError, VolumeError, and what the ledger raises.
    """
    with connected(options.address, options.workers) as connection:
        driver = _Driver(plan, listing, place, options, control, connection)
        try:
            with control.heart.renewing(driver.beat):
                return driver.run()
        finally:
            if connection.is_alive():
                driver.stop()


class _Driver:
    def __init__(
        self,
        plan: PipelinePlan,
        listing: Listing,
        place: LedgerPlace | None,
        options: RayOptions,
        control: Control,
        connection: Connection,
    ) -> None:
        self._connection = connection
        self._listing = ListingThread(listing, control.now)
        self._control = control
        self._flow = Flow(plan)
        self._ledger = RayLedger(place, control.heart.work)
        self._admission = Admission(self._listing, self._ledger, self._flow)
        self._counting: Any = None
        self._look_due = 0.0
        self._finished = 0
        self._is_listing_slow = False
        name = f"{plan.namespace}.{plan.name}"
        self._pools = RayPools(name, plan.stages, options, control.inflight, now=control.now)
        self._scaler = Scaler(plan.stages, self._pools, options, control.notes, control.now)
        self._demand = Demand(read_full_size(os.environ), control.now)
        self._losses = Losses(self._flow, self._pools, self._ledger, control)
        self._here = str(ray.get_runtime_context().get_node_id())

    def run(self) -> Ending:
        with self._ledger.recording(self._connection.is_alive):
            return self._run()

    def _run(self) -> Ending:
        while not self._is_done():
            self._control.heart.work()
            self._report()
            if self._control.must_stop() and not self._flow.is_stopped:
                self._flow.stop()
            if self._flow.is_stopped and self._control.must_leave():
                break
            if self._losses.replays:
                self._losses.replays.release(self._pools.list_sources())
            if self._listing.is_ended and self._flow.suspects and self._flow.is_idle():
                self._flow.release_suspects()
            self._pools.level([queue.counts for queue in self._flow.queues])
            self._admit()
            self._scale()
            self._dispatch()
            self._collect()
            self._ledger.flush()
        return self._end()

    def beat(self) -> None:
        self._ledger.beat()

    def stop(self) -> None:
        self._listing.close()
        self._pools.stop()
        self._ledger.stop()

    def _is_done(self) -> bool:
        if self._pools.calls or self._admission.asked is not None:
            return False
        if self._flow.is_stopped:
            return True
        if self._losses.replays:
            return False
        return self._listing.is_ended and self._flow.is_idle() and not self._flow.suspects

    def _end(self) -> Ending:
        failed, died = len(self._flow.failed), self._losses.anything_died
        standing = self._ledger.conclude(self._listing, failed, anything_died=died)
        return conclude(standing, self._flow, self._listing, self._control, self._pools.look())

    def _report(self) -> None:
        self._control.report(
            Progress(
                self._flow,
                self._listing.listed,
                self._admission.skipped,
                self._finished,
                self._listing.is_ended,
                self._control.incidents,
                self._pools.look,
                self._scaler.bottleneck,
                self._control.notes,
                self._connection.dashboard,
                self._admission.quarantined,
            )
        )

    def _admit(self) -> None:
        is_full = len(self._flow.queues[0]) >= self._pools.bound_queue(0)
        patience = LISTING_SECONDS if self._flow.is_idle() else 0.0
        self._is_listing_slow = self._admission.ask(is_full=is_full, patience=patience)

    def _scale(self) -> None:
        self._demand.look(self._flow.queues, self._admission.sources_left)
        if self._flow.is_stopped or self._flow.is_idle():
            self._scaler.bottleneck = None  # and no worker where nothing is left to do
        elif self._scaler.is_due():
            for worker in self._scaler.look(self._flow.queues, self._admission.sources_left):
                self._lose(worker, NodeDiedError("its node has died"))

    def _dispatch(self) -> None:
        for stage in reversed(range(len(self._pools))):
            while self._has_room_below(stage):
                most = self._bound_calls(stage)
                if not self._pools.has_room(stage, most):
                    break
                waiting = len(self._flow.queues[stage])
                batch = self._flow.next_batch(stage, self._pools.size_call(stage, waiting))
                if not batch:
                    break
                self._pools.submit(stage, batch, most)

    def _bound_calls(self, stage: int) -> int:
        if self._flow.has_suspects(stage):
            return 1  # it goes to a worker that has nothing else
        return self._pools.bound_calls(stage, len(self._flow.queues[stage]))

    def _has_room_below(self, stage: int) -> bool:
        if stage + 1 == len(self._pools):
            return True
        return len(self._flow.queues[stage + 1]) < self._pools.bound_queue(stage + 1)

    def _collect(self) -> None:
        self._look_around()
        waiting = [*self._pools.calls, *self._pools.placing, *self._pools.preparing]
        answers = (self._ledger.watch, self._admission.asked, self._counting)
        waiting += [one for one in answers if one is not None]
        if not waiting:
            time.sleep(LISTING_SECONDS)
            return
        ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        if not ready:
            patience = LISTING_SECONDS if self._is_listing_slow else POLL_SECONDS
            ready, _ = ray.wait(waiting, timeout=patience)
        # A worker that can't be set up fails its calls too; its own word comes first.
        receipts = [one for one in ready if one in self._pools.calls]
        for reference in ready:
            if reference not in self._pools.calls:
                self._handle(reference)
        self._take_receipts([one for one in receipts if one in self._pools.calls])

    def _handle(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        if reference in self._pools.placing:
            self._take_worker(reference, self._pools.placing, self._pools.take_placed)
        elif reference in self._pools.preparing:
            self._take_worker(reference, self._pools.preparing, self._pools.take_ready)
        elif reference == self._admission.asked:
            self._admission.take(self._get(reference))
        elif reference == self._counting:
            self._finished, self._counting = self._get(reference), None
        elif reference == self._ledger.watch:
            raise self._ledger.explain()

    def _look_around(self) -> None:
        """Now and then: is the local node alive, and how many sources are finished?"""
        now = self._control.now()
        if now < self._look_due:
            return
        self._look_due = now + POLL_SECONDS
        self._connection.check_alive()
        if self._ledger.is_tracked and self._counting is None:
            self._counting = self._ledger.count_finished()
        for worker, words in self._pools.list_overdue():
            self._lose(worker, OverdueError(words))

    def _get(self, reference: Any) -> Any:  # noqa: ANN401 - whatever the ledger answers
        """An answer of the ledger; where it has died, the watch knows why."""
        try:
            return ray.get(reference)
        except RayTaskError as error:
            raise unwrap(error) from None
        except RayError:
            raise self._ledger.explain() from None

    def _take_receipts(self, references: list[Any]) -> None:
        try:
            answers = ray.get(references)
        except RayError:  # one of them failed; which one is seen one by one
            for reference in references:
                if reference in self._pools.calls:
                    self._take_receipt(reference)
            return
        for reference, packed in zip(references, answers, strict=True):
            self._complete(reference, packed)

    def _complete(self, reference: Any, packed: Plain) -> None:  # noqa: ANN401 - a reference
        call, receipt = self._pools.take_answer(reference, packed)
        self._pools[call.stage].streak.end()
        batch, receipt = self._losses.take_current(call, receipt)
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(call.stage, batch, receipt, call.data)

    def _take_receipt(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        call = self._pools.calls[reference]
        try:
            self._complete(reference, ray.get(reference))
        except LOSSES as error:
            self._lose(call.worker, error)
        except ObjectLostError as error:
            self._pools.skip_call(reference)
            self._losses.lose_data(call, first_line(error))
        except RayTaskError as error:
            raise unwrap(error) from None

    def _take_worker(
        self,
        reference: Any,  # noqa: ANN401 - an object reference
        workers: dict[Any, Worker],
        take: Callable[[Any, str, str], None],
    ) -> None:
        try:
            node = ray.get(reference)
        except LOSSES as error:
            self._lose(workers.pop(reference), error)
        except RayTaskError as error:
            raise unwrap(error) from None
        else:
            take(reference, node, self._here)

    def _lose(self, worker: Worker, error: Exception) -> None:
        if not self._pools.has(worker):
            return
        answered = self._pools.find_answered(worker)
        for reference in answered:  # it did these before it died
            self._take_receipt(reference)
        if answered and isinstance(error, OverdueError):
            return  # it works on the next call now, whose time has only begun
        if is_of_node(error) or not worker.is_placed:
            self._scaler.shun(worker.node)
        if self._pools.has(worker):  # else it was draining, and those were its last calls
            self._losses.take_out(worker, error)
