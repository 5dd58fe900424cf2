"""The engine for debugging: one process, one task after another, breakpoints work.

It drives the same flow as the other engine, deepest stage first, so little waits in memory.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from strandline.engine.execution import StageCall, explain_error
from strandline.engine.flow import Flow
from strandline.engine.ports import (
    BEAT_SECONDS,
    Control,
    Ending,
    Ledger,
    Listing,
    Progress,
    make_root,
    slot_of,
)
from strandline.ledger.words import RELEASED, SKIPPED
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.task import Task
from strandline.storage.inflight import InFlightTable
from strandline.storage.outputs import OutputStore


class StageSetupError(StrandlineError):
    """A stage can't be set up in its worker."""


def run_inline(
    plan: PipelinePlan, listing: Listing, ledger: Ledger, outputs: OutputStore, control: Control
) -> Ending:
    """Run every source that the ledger releases, to the end or until told to stop.

    Raises:
        StageSetupError, ShapeError, StageBrokenError, VolumeError, and what the ledger raises.
    """
    flow = Flow(plan)
    calls = [_set_up(stage, outputs, control) for stage in plan.stages]
    skipped = 0
    beat_due = control.now() + BEAT_SECONDS
    while True:
        if control.now() >= beat_due:
            ledger.beat()
            if control.inflight:
                control.inflight.touch()
            beat_due = control.now() + BEAT_SECONDS
        control.report(
            Progress(flow, listing.listed, skipped, ledger.count_finished(), listing.is_ended, [])
        )
        if control.must_stop():
            flow.stop()
            break
        if _run_one(flow, calls, ledger, control.inflight):
            continue
        if not listing.is_ended:
            skipped += _admit(flow, listing, ledger)
        elif flow.suspects:
            flow.release_suspects()
        else:
            break
    if listing.is_ended:
        ledger.end_listing(listing.listed)
    standing = ledger.drain(anything_died=False)
    counts = {queue.name: queue.counts for queue in flow.queues}
    return Ending(standing, counts, listing.listed, listing.is_ended, control.incidents)


def set_up_stage(stage: StagePlan) -> StagePlan:
    """A copy of the stage that is ready for work.

    Raises:
        StageSetupError: its own `setup` raised.
    """
    own = replace(stage, stage=copy.deepcopy(stage.stage))
    try:
        own.stage.setup()
    except Exception as error:
        msg = f"stage {stage.name!r} can't be set up: {explain_error(error)}"
        raise StageSetupError(msg) from error
    return own


def _set_up(stage: StagePlan, outputs: OutputStore, control: Control) -> StageCall:
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
        flow.complete(stage, batch, receipt, data)
        ledger.forward(receipt.events, receipt.failures)
        return True
    return False


def _admit(flow: Flow, listing: Listing, ledger: Ledger) -> int:
    batch = listing.draw()
    verdicts = ledger.admit([listed for listed, _ in batch])
    for verdict, (listed, source) in zip(verdicts, batch, strict=True):
        if verdict >= RELEASED:
            task = make_root(listed, source)
            flow.enter([slot_of(task, [task], 0)], verdict - RELEASED)
    return verdicts.count(SKIPPED)
