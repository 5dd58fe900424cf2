"""The engine for debugging: one process, one task after another, breakpoints work.

It drives the same flow as the other engine, deepest stage first, so little waits in memory.
"""

from __future__ import annotations

import math
import pickle
import socket
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from strandline.engine.call.doubt import FailureDoubt
from strandline.engine.call.handover import Pack, pack_answers, read_input
from strandline.engine.call.limits import CallWatch, explain_overdue
from strandline.engine.call.payloads import Dumps, measure
from strandline.engine.call.setup import (
    StageHooks,
    find_volume_folder,
    has_node_setup,
    set_up_node,
    set_up_stage,
)
from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.call.stage.receipts import CallPart, OpenTask
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.call.worker_page import read_own_stacks
from strandline.engine.core.call_size import SINK_SECONDS, FileFilling
from strandline.engine.core.flow import Flow
from strandline.engine.core.pools import PoolState, find_heaviest
from strandline.engine.core.ports import (
    ADMIT_BATCH,
    Admitted,
    Control,
    Ending,
    Listing,
    RunProgress,
    conclude,
)
from strandline.engine.own_ledger import (
    Ledger,
    OwnAdmission,
    draining_after_faults,
    opened_ledger,
)
from strandline.engine.preemption.last_words import explain_hang
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.plan.errors import StageInterruptedError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import Receipt
from strandline.plan.stages.stage import Shape
from strandline.storage.outputs.ports import OutputLocation, OutputStore
from strandline.storage.outputs.remote import open_outputs

# So long a slow listing is drawn from before anything else has its turn.
LISTING_SECONDS = 1.0
# A sink has several tasks at once, for which a disk is waited for as long as for one; no more wait
# for it, and no longer.
SINK_TASKS = 64
# Larger tasks are fewer: all that wait for a sink are in memory.
SINK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class InlineEngine:
    """The engine in this process.

    Attributes:
        outputs: where the sinks write.
        dumps: pickles what stages hand on, so that they share nothing here that they don't share
            between processes.
        session: the ledger, which this process opens; None: nothing is tracked.
    """

    outputs: OutputLocation
    dumps: Dumps = pickle.dumps
    session: LedgerSession | None = None

    def run(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: LedgerLocation | None,
        control: Control,
    ) -> Ending:
        """See `Engine.run`."""
        outputs = open_outputs(self.outputs.url, self.outputs.writer)
        with opened_ledger(self.session, ledger, control) as opened:
            folder = find_volume_folder(self.outputs)
            return run_inline(plan, listing, opened, outputs, control, self.dumps, folder)


def run_inline(
    plan: PipelinePlan,
    listing: Listing,
    ledger: Ledger,
    outputs: OutputStore,
    control: Control,
    dumps: Dumps = pickle.dumps,
    folder: Path | None = None,
) -> Ending:
    """See `Engine.run`; the ledger is in this process.

    Args:
        folder: the pipeline's own on the volume, for stages that keep something there.
    """
    with draining_after_faults(ledger):
        return _Run(plan, listing, ledger, outputs, control, dumps, folder).run()


class _PackedPart(NamedTuple):
    block: list[Plain]
    receipt: Receipt
    opened: OpenTask | None


class _Run:
    def __init__(
        self,
        plan: PipelinePlan,
        listing: Listing,
        ledger: Ledger,
        outputs: OutputStore,
        control: Control,
        dumps: Dumps,
        folder: Path | None,
    ) -> None:
        self._flow = Flow(plan)
        self._folder = folder
        self._stages = plan.stages
        self._watch = CallWatch(
            control.now, lambda words: control.overrun(explain_hang(words, read_own_stacks()))
        )
        self._doubt = FailureDoubt(control.must_stop, control.now)
        self._outputs = outputs
        self._calls: list[StageCall] = []
        self._listing = listing
        self._ledger = ledger
        self._control = control
        self._pack: Pack = partial(pack_tasks, dumps=dumps, is_local=True)
        self._admission = OwnAdmission(listing, ledger, self._flow, self._pack)
        self._begun = control.now()
        self._sink_ran = -math.inf
        target = plan.stages[-1].target_bytes
        self._filling = None if target is None else FileFilling(target)
        self._is_cut = False  # a call was left before its end

    def run(self) -> Ending:
        while not self._must_stop():
            if self._run_one():
                continue
            if not self._listing.is_ended:
                self._admission.enter(_draw(self._listing, self._control))
            elif self._flow.suspects:
                self._flow.release_suspects()
            else:
                break
        while self._flow.is_stopped and self._flow.fills_files:
            if not self._run_stage(len(self._stages) - 1):
                break
        self._admission.end()
        self._report()  # files that a stop had filled would else never be told
        # A call that was left may have reported its children and not itself.
        standing = self._ledger.drain(anything_died=self._is_cut)
        return conclude(standing, self._flow, self._listing, self._list_pools())

    def _must_stop(self) -> bool:
        """Begin a turn: show how far it is, and hear whether to stop."""
        self._control.heartbeat.note_progress()
        self._report()
        if self._control.must_stop():
            self._flow.stop()
        return self._flow.is_stopped

    def _report(self) -> None:
        self._control.report(
            RunProgress(
                self._flow,
                self._listing.listed,
                self._admission.skipped,
                self._ledger.count_finished(),
                self._listing.is_ended,
                [],
                self._list_pools,
                find_heaviest(self._flow.counts),
                quarantined=self._admission.quarantined,
            )
        )

    def _list_pools(self) -> list[PoolState]:
        seconds = self._control.now() - self._begun
        return [PoolState(1, 1, started=1, seconds=seconds) for _ in self._stages]

    def _run_one(self) -> bool:
        """Run one batch of the deepest stage that has one; False where nothing waits."""
        for stage in reversed(range(len(self._stages))):
            if not self._is_held(stage) and self._run_stage(stage):
                return True
        # No later task will come to wait with those that are held.
        return any(self._run_stage(stage) for stage in reversed(range(len(self._stages))))

    def _run_stage(self, stage: int) -> bool:
        most = self._find_most(stage)
        batch = self._flow.next_batch(stage, most, most if self._must_fill(stage) else 0)
        if batch:
            self._process(stage, batch)
        return bool(batch)

    def _is_held(self, stage: int) -> bool:
        """Return whether a stage is to wait until more waits for it."""
        is_small = len(self._flow.queues[stage]) < self._find_most(stage)
        return is_small and self._control.now() - self._sink_ran < SINK_SECONDS

    def _find_most(self, stage: int) -> int:
        """Return tasks of a call at most; 0: what the stage says."""
        if self._filling is not None and stage + 1 == len(self._stages):
            return self._filling.count_tasks(self._measure_next(stage))
        plan = self._stages[stage]
        is_timed = plan.timeout is not None  # by the call, so each task has one of its own
        if is_timed or not plan.writes:
            return 0
        size = self._measure_next(stage)
        return max(1, min(SINK_TASKS, int(SINK_BYTES / size))) if size else SINK_TASKS

    def _must_fill(self, stage: int) -> bool:
        """Return whether what waits for the sink is to wait until it fills a file."""
        if self._filling is None or stage + 1 < len(self._stages):
            return False
        is_over = self._listing.is_ended and not self._flow.is_busy_above(stage)
        may_grow = not (is_over or self._flow.is_stopped)
        waiting, size = len(self._flow.queues[stage]), self._measure_next(stage)
        return self._filling.must_wait(waiting, size, self._control.now(), may_grow=may_grow)

    def _measure_next(self, stage: int) -> float:
        """Return bytes of the task that waits for a stage next."""
        waiting = self._flow.queues[stage].waiting
        return measure(waiting[0].block[waiting[0].position][0]) if waiting else 0.0

    def _process(self, stage: int, batch: list[Slot]) -> None:
        if not self._calls:
            # Where nothing is left to do, nothing is loaded for it.
            self._set_up()
        sources = [slot.source for slot in batch]
        inflight = self._control.inflight
        if inflight:
            inflight.begin(sources)
        try:
            self._take_parts(stage, batch)
        except StageInterruptedError:  # the next attempt does it again
            self._is_cut = True
            self._flow.stop()
        if self._stages[stage].shape is Shape.SINK:
            self._sink_ran = self._control.now()
            if self._filling is not None:
                self._filling.begin()
        if inflight:
            inflight.settle(sources)

    def _take_parts(self, stage: int, batch: list[Slot]) -> None:
        with closing(self._call(stage, batch)) as parts:
            for part in parts:
                if self._doubt.concerns(part.receipt):
                    self._is_cut = True
                    break
                batch = self._take(stage, batch, part)
                if batch and not self._run_below(stage):
                    self._is_cut = True
                    break
                if batch and batch[0].source in self._flow.failed:
                    self._calls[stage].leave(batch[0].token)

    def _take(self, stage: int, batch: list[Slot], part: _PackedPart) -> list[Slot]:
        """Take a part of an answer; return tasks of the call that are not over with it."""
        packed, receipt, opened = part
        rest: list[Slot] = []
        if opened is not None:
            batch, rest = split_opened(batch, *opened)
        receipt = self._flow.meter.attach(receipt, self._flow.failed)
        if self._filling is not None and stage + 1 == len(self._stages):
            self._filling.note(receipt)
        self._flow.refuse_uniform(stage, receipt)
        self._ledger.forward(receipt.events, receipt.failures)
        self._flow.complete(stage, batch, receipt, packed, rest[0] if rest else None)
        return rest

    def _run_below(self, stage: int) -> bool:
        """Run what a part of an answer has brought about; False where the run is to stop."""
        below = range(len(self._stages) - 1, stage, -1)
        while not self._must_stop():
            if not any(self._run_stage(each) for each in below):
                return True
        return False

    def _set_up(self) -> None:
        with self._control.heartbeat.trusting():
            self._calls = [
                _set_up(stage, self._outputs, self._control, self._folder) for stage in self._stages
            ]

    def _call(self, stage: int, batch: list[Slot]) -> Generator[_PackedPart]:
        """Yield what a call makes, part by part; each of them has the time of a call."""
        plan, words = self._stages[stage], ""
        limit = plan.limit_call(len(batch))
        if limit is not None:
            words = f"stage {plan.name!r}: {explain_overdue(len(batch), limit)}: {batch[0].key!r}"
        parts = self._stream(stage, batch)
        while True:
            with self._watch.watching(limit, words):
                part = next(parts, None)
                if part is None:
                    return
                named = pack_answers(lambda _: plan.name, part.data, part.receipt, self._pack)
                _, block, receipt = named
            yield _PackedPart(block, receipt, part.opened)

    def _stream(self, stage: int, batch: list[Slot]) -> Iterator[CallPart]:
        tasks, unreadable = read_input(slot.block[slot.position] for slot in batch)
        yield from self._calls[stage].stream(tasks, unreadable)


def _set_up(
    stage: StagePlan, outputs: OutputStore, control: Control, folder: Path | None
) -> StageCall:
    if has_node_setup(stage):
        set_up_node(stage, socket.gethostname())
    hooks = StageHooks(is_stopping=control.must_stop)
    return StageCall(set_up_stage(stage, folder, hooks), outputs, control.now)


def _draw(listing: Listing, control: Control) -> Admitted:
    """Return the next sources, as many as come within a moment; a stop waits no longer."""
    batch: Admitted = []
    until = control.now() + LISTING_SECONDS
    while len(batch) < ADMIT_BATCH and not listing.is_ended and control.now() < until:
        batch += listing.draw(1)
    return batch
