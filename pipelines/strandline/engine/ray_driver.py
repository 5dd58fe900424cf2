"""The loop of the Ray engine: list, dispatch, collect, and live through lost workers.

The driver moves references and receipts, never data. What a receipt means for a source is the
ledger's to say; what is due next is the flow's.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.exceptions import ObjectLostError, RayError, RayTaskError

from strandline.engine.flow import Flow
from strandline.engine.pools import RayOptions, size_pools
from strandline.engine.ports import BEAT_SECONDS, Control, Ending, Listing, Progress
from strandline.engine.ray_admission import Admission
from strandline.engine.ray_cluster import (
    ClusterLostError,
    Connection,
    connected,
    first_line,
    unwrap,
)
from strandline.engine.ray_ledger import LedgerPlace, RayLedger
from strandline.engine.ray_losses import LOSSES, Losses
from strandline.engine.ray_pool import RayPools
from strandline.engine.wire import Plain
from strandline.engine.worker_pool import Worker
from strandline.ledger.words import Standing
from strandline.plan.pipeline import PipelinePlan

POLL_SECONDS = 0.5


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
        self._listing = listing
        self._options = options
        self._control = control
        self._flow = Flow(plan)
        self._ledger = RayLedger(place)
        self._admission = Admission(listing, self._ledger, self._flow)
        self._counting: Any = None
        self._look_due = 0.0
        self._beat_due = 0.0
        self._finished = 0
        sizes = size_pools(plan.stages, connection.cpus)
        name = f"{plan.namespace}.{plan.name}"
        self._pools = RayPools(name, plan.stages, sizes, options, control.inflight)
        self._losses = Losses(self._flow, self._pools, self._ledger, control)
        self._here = str(ray.get_runtime_context().get_node_id())

    def run(self) -> Ending:
        while not self._is_done():
            self._report()
            if self._control.must_stop() and not self._flow.is_stopped:
                self._flow.stop()
            if self._flow.is_stopped and self._control.must_leave():
                break
            if self._listing.is_ended and self._flow.suspects and self._flow.is_idle():
                self._flow.release_suspects()
            self._admission.ask(is_full=len(self._flow.queues[0]) >= self._pools[0].bound)
            self._dispatch()
            self._collect()
            self._ledger.flush()
        return self._end()

    def stop(self) -> None:
        self._pools.stop()
        self._ledger.stop()

    def _is_done(self) -> bool:
        if self._pools.calls or self._admission.asked is not None:
            return False
        if self._flow.is_stopped:
            return True
        return self._listing.is_ended and self._flow.is_idle() and not self._flow.suspects

    def _end(self) -> Ending:
        listing, is_listed = self._listing, self._listing.is_ended
        if self._ledger.is_tracked:
            total = listing.listed if is_listed else None
            standing = self._ledger.drain(total, anything_died=self._losses.anything_died)
        else:
            failed = len(self._flow.failed)
            standing = Standing(listing.listed - failed, 0, failed, 0, 0)
        counts = {queue.name: queue.counts for queue in self._flow.queues}
        pools = dict(zip(counts, self._pools.look(), strict=True))
        return Ending(standing, counts, listing.listed, is_listed, self._control.incidents, pools)

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
            )
        )

    def _dispatch(self) -> None:
        if self._flow.is_idle():
            return
        self._pools.start()  # no worker where nothing is left to do
        for stage in reversed(range(len(self._pools))):
            while self._has_room_below(stage):
                most = self._bound_calls(stage)
                if not self._pools.has_room(stage, most):
                    break
                batch = self._flow.next_batch(stage)
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
        return len(self._flow.queues[stage + 1]) < self._pools[stage + 1].bound

    def _collect(self) -> None:
        self._look_around()
        waiting = [*self._pools.calls, *self._pools.preparing]
        waiting += [self._ledger.watch] if self._ledger.is_tracked else []
        waiting += [self._admission.asked] if self._admission.asked is not None else []
        waiting += [self._counting] if self._counting is not None else []
        if not waiting:
            return
        ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=0)
        if not ready:
            ready, _ = ray.wait(waiting, timeout=POLL_SECONDS)
        # A worker that can't be set up fails its calls too; its own word comes first.
        receipts = [one for one in ready if one in self._pools.calls]
        for reference in ready:
            if reference not in self._pools.calls:
                self._handle(reference)
        self._take_receipts([one for one in receipts if one in self._pools.calls])

    def _handle(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        if reference in self._pools.preparing:
            self._take_ready(reference)
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
        if not self._connection.is_alive():
            msg = "the local Ray was killed; run again to go on"
            raise ClusterLostError(msg)
        if self._ledger.is_tracked and self._counting is None:
            self._counting = self._ledger.count_finished()
        if now >= self._beat_due:
            self._beat_due = now + BEAT_SECONDS
            self._ledger.beat()
            if self._control.inflight:
                self._control.inflight.touch()

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
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(call.stage, call.batch, receipt, call.data)

    def _take_receipt(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        call = self._pools.calls[reference]
        try:
            self._complete(reference, ray.get(reference))
        except LOSSES as error:
            self._lose(call.worker, error)
        except ObjectLostError as error:
            self._pools.skip_call(reference)
            self._losses.give_up(call.stage, call.batch, f"its data was lost: {first_line(error)}")
        except RayTaskError as error:
            raise unwrap(error) from None

    def _take_ready(self, reference: Any) -> None:  # noqa: ANN401 - an object reference
        try:
            node = ray.get(reference)
        except LOSSES as error:
            self._lose(self._pools.preparing.pop(reference), error)
        except RayTaskError as error:
            raise unwrap(error) from None
        else:
            self._pools.take_ready(reference, node, self._here)

    def _lose(self, worker: Worker, error: Exception) -> None:
        if not self._pools.has(worker):
            return
        for reference in self._pools.find_answered(worker):  # it did these before it died
            self._take_receipt(reference)
        self._losses.replace(worker, error)
