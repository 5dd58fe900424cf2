"""The engine for debugging: one process, one task after another, breakpoints work.

It drives the same flow as the other engine, deepest stage first, so little waits in memory.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable

from strandline.engine.execution import StageCall
from strandline.engine.flow import Flow
from strandline.engine.heartbeat import Heartbeat
from strandline.engine.pools import PoolState
from strandline.engine.ports import (
    ADMIT_BATCH,
    Admitted,
    Control,
    Ending,
    Ledger,
    Listing,
    Progress,
    conclude,
    make_root,
    slot_of,
)
from strandline.engine.setup import has_node_setup, set_up_node, set_up_stage
from strandline.ledger.words import PARKED, RELEASED, SKIPPED
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.task import Task
from strandline.storage.inflight import InFlightTable
from strandline.storage.outputs import OutputStore

# So long a slow listing is drawn from before anything else has its turn.
LISTING_SECONDS = 1.0


def run_inline(
    plan: PipelinePlan, listing: Listing, ledger: Ledger, outputs: OutputStore, control: Control
) -> Ending:
    """Run every source that the ledger releases, to the end or until told to stop.

    Raises:
        StageSetupError, ShapeError, StageBrokenError, VolumeError, and what the ledger raises.
    """
    flow = Flow(plan)
    calls = [_set_up(stage, outputs, control) for stage in plan.stages]
    verdicts: Counter[int] = Counter()
    begun = control.now()
    heart = Heartbeat(ledger.beat, control)

    def list_pools() -> list[PoolState]:
        return [PoolState(1, 1, started=1, seconds=control.now() - begun) for _ in calls]

    while True:
        heart.beat()
        control.report(
            Progress(
                flow,
                listing.listed,
                verdicts[SKIPPED],
                ledger.count_finished(),
                listing.is_ended,
                [],
                list_pools,
                quarantined=verdicts[PARKED],
            )
        )
        if control.must_stop():
            flow.stop()
            break
        if _run_one(flow, calls, ledger, control.inflight):
            continue
        if not listing.is_ended:
            verdicts.update(_admit(flow, _draw(listing, control.now), ledger))
        elif flow.suspects:
            flow.release_suspects()
        else:
            break
    if listing.is_ended:
        ledger.end_listing(listing.listed)
    standing = ledger.drain(anything_died=False)
    return conclude(standing, flow, listing, control, list_pools())


def _set_up(stage: StagePlan, outputs: OutputStore, control: Control) -> StageCall:
    if has_node_setup(stage):
        set_up_node(stage, socket.gethostname())
    return StageCall(set_up_stage(stage), outputs, control.now)


def _run_one(
    flow: Flow, calls: list[StageCall], ledger: Ledger, inflight: InFlightTable | None
) -> bool:
    """Run one batch of the deepest stage that has one; False where nothing waits."""
    for stage in reversed(range(len(calls))):
        batch = flow.next_batch(stage)
        if not batch:
            continue
        tasks: list[Task] = [slot.block[slot.place] for slot in batch]
        sources = [slot.source for slot in batch]
        if inflight:
            inflight.queue(sources)
            inflight.process(sources)
        data, receipt = calls[stage].run(tasks)
        if inflight:
            inflight.settle(sources)
        receipt = flow.meter.attach(receipt, flow.failed)
        flow.complete(stage, batch, receipt, data)
        ledger.forward(receipt.events, receipt.failures)
        return True
    return False


def _draw(listing: Listing, now: Callable[[], float]) -> Admitted:
    """The next sources, as many as come within a moment; a stop and a beat wait no longer."""
    batch: Admitted = []
    until = now() + LISTING_SECONDS
    while len(batch) < ADMIT_BATCH and not listing.is_ended and now() < until:
        batch += listing.draw(1)
    return batch


def _admit(flow: Flow, batch: Admitted, ledger: Ledger) -> list[int]:
    verdicts = ledger.admit([listed for listed, _ in batch])
    for verdict, (listed, source) in zip(verdicts, batch, strict=True):
        if verdict >= RELEASED:
            task = make_root(listed, source)
            flow.enter([slot_of(task, [task], 0)], verdict - RELEASED)
    return verdicts
