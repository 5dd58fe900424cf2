"""The engine for debugging: one process, one task after another, breakpoints work.

It drives the same flow as the other engine, deepest stage first, so little waits in memory.
"""

from __future__ import annotations

import pickle
import socket
from collections import Counter
from contextlib import suppress
from functools import partial

from strandline.engine.call.call_watch import CallWatch, explain_overdue
from strandline.engine.call.handover import Pack, pack_answers, read_input
from strandline.engine.call.payloads import Dumps
from strandline.engine.call.receipts import ShapeError
from strandline.engine.call.setup import has_node_setup, set_up_node, set_up_stage
from strandline.engine.call.slots import Slot
from strandline.engine.call.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.core.flow import Flow, StageBrokenError
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import (
    ADMIT_BATCH,
    Admitted,
    Control,
    Ending,
    Ledger,
    Listing,
    Progress,
    conclude,
)
from strandline.engine.core.roots import enter_roots
from strandline.ledger.entries import PARKED, RELEASED, SKIPPED
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import Receipt
from strandline.storage.outputs.outputs import OutputStore

# So long a slow listing is drawn from before anything else has its turn.
LISTING_SECONDS = 1.0


def run_inline(
    plan: PipelinePlan,
    listing: Listing,
    ledger: Ledger,
    outputs: OutputStore,
    control: Control,
    dumps: Dumps = pickle.dumps,
) -> Ending:
    """Run every source that the ledger releases, to the end or until told to stop.

    Args:
        dumps: pickles what stages hand on, so that they share nothing here that they don't share
            between processes.

    Raises:
        StageSetupError, ShapeError, StageBrokenError, VolumeError, and what the ledger raises.
    """
    try:
        with control.heart.renewing(ledger.beat):
            return _Run(plan, listing, ledger, outputs, control, dumps).run()
    except (StageBrokenError, ShapeError):
        # The ledger is whole: it was a stage. One that has failed itself must commit nothing more.
        with suppress(StrandlineError):  # what has gone wrong before says more
            ledger.drain(anything_died=True)  # what failed is known to the next attempt
        raise


class _Run:
    def __init__(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: Ledger,
        outputs: OutputStore,
        control: Control,
        dumps: Dumps,
    ) -> None:
        self._flow = Flow(plan)
        self._stages = plan.stages
        self._watch = CallWatch(control.now, control.overrun)
        with control.heart.trusting():
            self._calls = [_set_up(stage, outputs, control) for stage in plan.stages]
        self._listing = listing
        self._ledger = ledger
        self._control = control
        self._pack: Pack = partial(pack_tasks, dumps=dumps, is_local=True)
        self._verdicts: Counter[int] = Counter()
        self._begun = control.now()

    def run(self) -> Ending:
        while True:
            self._control.heart.work()
            self._report()
            if self._control.must_stop():
                self._flow.stop()
                break
            if self._run_one():
                continue
            if not self._listing.is_ended:
                self._admit(_draw(self._listing, self._control))
            elif self._flow.suspects:
                self._flow.release_suspects()
            else:
                break
        if self._listing.is_ended:
            self._ledger.end_listing(self._listing.listed, is_whole=self._listing.is_whole)
        standing = self._ledger.drain(anything_died=False)
        return conclude(standing, self._flow, self._listing, self._control, self._list_pools())

    def _report(self) -> None:
        self._control.report(
            Progress(
                self._flow,
                self._listing.listed,
                self._verdicts[SKIPPED],
                self._ledger.count_finished(),
                self._listing.is_ended,
                [],
                self._list_pools,
                quarantined=self._verdicts[PARKED],
            )
        )

    def _list_pools(self) -> list[PoolState]:
        seconds = self._control.now() - self._begun
        return [PoolState(1, 1, started=1, seconds=seconds) for _ in self._calls]

    def _run_one(self) -> bool:
        """Run one batch of the deepest stage that has one; False where nothing waits."""
        for stage in reversed(range(len(self._calls))):
            batch = self._flow.next_batch(stage)
            if batch:
                self._work(stage, batch)
                return True
        return False

    def _work(self, stage: int, batch: list[Slot]) -> None:
        sources = [slot.source for slot in batch]
        inflight = self._control.inflight
        if inflight:
            inflight.queue(sources)
            inflight.process(sources)
        block, receipt = self._call(stage, batch)
        if inflight:
            inflight.settle(sources)
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(stage, batch, receipt, block)

    def _call(self, stage: int, batch: list[Slot]) -> tuple[list[Plain], Receipt]:
        plan, words = self._stages[stage], ""
        limit = plan.limit_call(len(batch))
        if limit is not None:
            words = f"stage {plan.name!r}: {explain_overdue(len(batch), limit)}: {batch[0].key!r}"
        with self._watch.watching(limit, words):
            tasks, unreadable = read_input(slot.block[slot.place] for slot in batch)
            data, receipt = self._calls[stage].run(tasks, unreadable)
            _, block, receipt = pack_answers(plan.name, data, receipt, self._pack)
        return block, receipt

    def _admit(self, batch: Admitted) -> None:
        verdicts = self._ledger.admit([listed for listed, _ in batch])
        self._verdicts.update(verdict for verdict in verdicts if verdict < RELEASED)
        failures = enter_roots(self._flow, verdicts, batch, self._pack)
        if failures:
            self._ledger.forward((), failures)


def _set_up(stage: StagePlan, outputs: OutputStore, control: Control) -> StageCall:
    if has_node_setup(stage):
        set_up_node(stage, socket.gethostname())
    return StageCall(set_up_stage(stage), outputs, control.now)


def _draw(listing: Listing, control: Control) -> Admitted:
    """The next sources, as many as come within a moment; a stop waits no longer."""
    batch: Admitted = []
    until = control.now() + LISTING_SECONDS
    while len(batch) < ADMIT_BATCH and not listing.is_ended and control.now() < until:
        batch += listing.draw(1)
    return batch
