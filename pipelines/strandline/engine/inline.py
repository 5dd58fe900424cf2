"""The engine for debugging: one process, one task after another, breakpoints work.

The last stage that has work runs first, so few tasks wait in memory.
"""

from __future__ import annotations

import math
import pickle
import socket
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from strandline.engine.call.doubt import FailureDoubt
from strandline.engine.call.handover import Pack, pack_answers, read_input
from strandline.engine.call.payloads import Dumps, measure
from strandline.engine.call.setup import (
    StageHooks,
    find_volume_folder,
    has_node_setup,
    set_up_node,
    set_up_stage,
)
from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.call.stage.receipts import OpenTask
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.core.call_size import SINK_SECONDS
from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Control, Ending, Listing
from strandline.engine.flow.flow import Flow
from strandline.engine.loop.admission import Admission
from strandline.engine.loop.loop import EngineLoop
from strandline.engine.loop.transport import RunState, Transport
from strandline.engine.own_ledger import Ledger, draining_after_faults, opened_ledger
from strandline.engine.preemption.last_words import explain_hang
from strandline.engine.worker.limits import CallWatch, explain_overdue
from strandline.engine.worker.worker_page import read_own_stacks
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.plan.errors import StageInterruptedError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import Receipt
from strandline.plan.stages.stage import Shape
from strandline.plan.task import Task
from strandline.storage.outputs.ports import OutputLocation, OutputStore
from strandline.storage.outputs.remote import open_outputs

# Maximum seconds to read from a slow listing before other work gets a turn.
LISTING_SECONDS = 1.0
# Maximum number of tasks per call of a sink. A sink takes several tasks per call, because a disk
# sync takes as long for many tasks as for one.
SINK_TASKS = 64
# Maximum bytes of the tasks that wait for a sink, because all of them are in memory.
SINK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class InlineEngine:
    """The engine that runs all stages in this process.

    Attributes:
        outputs: location of the sinks' outputs.
        dumps: pickles the data between stages, so that stages here share no objects that stages in
            separate processes would not share.
        session: the ledger session of this process; None tracks nothing.
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
        folder: the pipeline's folder on the volume, for stages that store files there.
    """
    flow = Flow(plan)
    pack = partial(pack_tasks, dumps=dumps, is_local=True)
    admission = Admission(listing, ledger, flow, pack)
    state = RunState(plan, flow, listing, ledger, admission, control)
    transport = InlineTransport(state, plan.stages, listing, outputs, pack, folder)
    with draining_after_faults(ledger), closing(transport):
        return EngineLoop(state, transport).run()


@dataclass(slots=True)
class _OpenCall:
    """A call that has started and not ended.

    Attributes:
        batch: unfinished tasks.
        sources: sources of all tasks of the call.
        parts: the remaining parts of the result.
    """

    stage: int
    batch: list[Slot]
    sources: list[bytes]
    parts: Generator[_PackedPart]


class _PackedPart(NamedTuple):
    block: list[Plain]
    receipt: Receipt
    opened: OpenTask | None


class InlineTransport(Transport):
    """Calls stages in this process, one call per turn: the last stage that has work.

    Args:
        listing: the listing, which is read in this process while no stage has work.
        folder: see `run_inline`.
    """

    def __init__(
        self,
        state: RunState,
        stages: Sequence[StagePlan],
        listing: Listing,
        outputs: OutputStore,
        pack: Pack,
        folder: Path | None,
    ) -> None:
        super().__init__(state)
        control = state.control
        self._folder = folder
        self._stages = stages
        self._watch = CallWatch(
            control.now, lambda words: control.overrun(explain_hang(words, read_own_stacks()))
        )
        self._doubt = FailureDoubt(control.must_stop, control.now)
        self._outputs = outputs
        self._calls: list[StageCall] = []
        self._open: list[_OpenCall] = []  # in stage order
        self._listing = listing
        self._pack = pack
        self._begun = control.now()
        self._sink_ran = -math.inf
        self._is_cut = False  # a call was abandoned
        self._is_stuck = False  # a stopped run can write nothing else

    def turn(self) -> None:
        """See `Transport.turn`."""
        self._state.release_suspects()
        if self._go_on() if self._open else self._run_one():
            return
        if self._flow.is_stopped:
            self._is_stuck = True
        elif not self._listing.is_ended:
            self._state.admission.enter(_draw(self._listing, self._control))

    def close(self) -> None:
        """See `Transport.close`."""
        for call in reversed(self._open):
            call.parts.close()

    def must_leave(self) -> bool:
        """See `Transport.must_leave`. The run continues if a file can still be written."""
        self._leave_calls()
        return not (self._flow.fills_files and self.can_write())

    def can_write(self) -> bool:
        """See `Transport.can_write`."""
        return super().can_write() and not self._is_stuck

    def has_losses(self) -> bool:
        """See `Transport.has_losses`."""
        return self._is_cut  # an abandoned call may have reported its children, but not its own end

    def list_pools(self) -> list[PoolState]:
        """See `Transport.list_pools`."""
        seconds = self._control.now() - self._begun
        return [PoolState(1, 1, started=1, seconds=seconds) for _ in self._stages]

    def lose_rest(self) -> None:
        """See `Transport.lose_rest`. This engine does not measure work."""

    def _go_on(self) -> bool:
        """Run a stage after the last open call, or take the next part of that call's result."""
        call = self._open[-1]
        below = range(len(self._stages) - 1, call.stage, -1)
        if not any(self._run_stage(stage) for stage in below):
            if call.batch[0].source in self._flow.failed:
                self._calls[call.stage].leave(call.batch[0].token)
            self._take_parts(call)
        return True

    def _run_one(self) -> bool:
        """Run one batch of the last stage that has a batch. Return False if nothing waits."""
        for stage in reversed(range(len(self._stages))):
            if not self._is_held(stage) and self._run_stage(stage):
                return True
        # No other stage can run, so stages that wait for more tasks would wait in vain. Run them.
        return any(self._run_stage(stage) for stage in reversed(range(len(self._stages))))

    def _run_stage(self, stage: int) -> bool:
        most = self._find_most(stage)
        batch = self._flow.next_batch(stage, most, most if self._must_fill(stage) else 0)
        if batch:
            self._begin(stage, batch)
        return bool(batch)

    def _is_held(self, stage: int) -> bool:
        """Return whether a stage should wait for more tasks."""
        is_small = len(self._flow.queues[stage]) < self._find_most(stage)
        return is_small and self._control.now() - self._sink_ran < SINK_SECONDS

    def _find_most(self, stage: int) -> int:
        """Return the maximum tasks of a call; 0 means the stage's own batch size."""
        filling = self._state.find_filling(stage)
        if filling is not None:
            return filling.count_tasks(self._measure_next(stage))
        plan = self._stages[stage]
        is_timed = plan.timeout is not None  # a limit applies to a call, so each task gets a call
        if is_timed or not plan.writes:
            return 0
        size = self._measure_next(stage)
        return max(1, min(SINK_TASKS, int(SINK_BYTES / size))) if size else SINK_TASKS

    def _must_fill(self, stage: int) -> bool:
        """Return whether the sink's waiting tasks should wait until they fill a file."""
        filling = self._state.find_filling(stage)
        if filling is None:
            return False
        is_over = self._listing.is_ended and not self._flow.is_busy_above(stage)
        may_grow = not (is_over or self._flow.is_stopped)
        waiting, size = len(self._flow.queues[stage]), self._measure_next(stage)
        return filling.must_wait(waiting, size, self._control.now(), may_grow=may_grow)

    def _measure_next(self, stage: int) -> float:
        """Return the bytes of the task that a stage receives next."""
        waiting = self._flow.queues[stage].waiting
        return measure(waiting[0].block[waiting[0].position][0]) if waiting else 0.0

    def _begin(self, stage: int, batch: list[Slot]) -> None:
        if not self._calls:
            # Load stages only if there is work.
            self._set_up()
        call = _OpenCall(stage, batch, [slot.source for slot in batch], self._call(stage, batch))
        if self._control.inflight:
            self._control.inflight.begin(call.sources)
        self._open.append(call)
        self._take_parts(call)

    def _take_parts(self, call: _OpenCall) -> None:
        """Take parts of a result until the call pauses, because later stages run first."""
        try:
            for part in call.parts:
                if self._doubt.concerns(part.receipt):
                    self._is_cut = True
                    break
                call.batch = self._take(call.stage, call.batch, part)
                if call.batch:
                    return
        except StageInterruptedError:  # the next attempt repeats the task
            self._flow.stop()
            self._leave_calls()
            return
        self._end_call()

    def _take(self, stage: int, batch: list[Slot], part: _PackedPart) -> list[Slot]:
        """Accept a part of a result. Return the unfinished tasks of the call."""
        rest: list[Slot] = []
        if part.opened is not None:
            batch, rest = split_opened(batch, *part.opened)
        opened = rest[0] if rest else None
        self._state.complete(stage, batch, part.receipt, part.block, opened)
        return rest

    def _end_call(self) -> None:
        call = self._open.pop()
        call.parts.close()
        if self._stages[call.stage].shape is Shape.SINK:
            self._sink_ran = self._control.now()
            if self._state.filling is not None:
                self._state.filling.begin()
        if self._control.inflight:
            self._control.inflight.settle(call.sources)

    def _leave_calls(self) -> None:
        """Abandon the open calls of a stopped run."""
        while self._open:
            self._is_cut = True
            self._end_call()

    def _set_up(self) -> None:
        with self._control.heartbeat.trusting():
            self._calls = [
                _set_up(stage, self._outputs, self._control, self._folder) for stage in self._stages
            ]

    def _call(self, stage: int, batch: list[Slot]) -> Generator[_PackedPart]:
        """Yield the parts of a call's result; the time limit applies to each part."""
        plan, words = self._stages[stage], ""
        limit = plan.limit_call(len(batch))
        if limit is not None:
            words = f"stage {plan.name!r}: {explain_overdue(len(batch), limit)}: {batch[0].key!r}"
        tasks, unreadable = read_input(slot.block[slot.position] for slot in batch)
        # Copy the tasks, because a stage may change the tasks that it receives.
        before = [Task(task.data, task.meta, task.lineage) for task in tasks]
        parts = self._calls[stage].stream(tasks, unreadable)
        while True:
            with self._watch.watching(limit, words):
                part = next(parts, None)
                if part is None:
                    return
                named = pack_answers(lambda _: plan.name, part.data, part.receipt, self._pack)
                _, block, receipt = named
            if self._control.observe is not None:
                self._control.observe(self._calls[stage].plan, before, part.data, part.receipt)
            yield _PackedPart(block, receipt, part.opened)


def _set_up(
    stage: StagePlan, outputs: OutputStore, control: Control, folder: Path | None
) -> StageCall:
    if has_node_setup(stage):
        set_up_node(stage, socket.gethostname())
    hooks = StageHooks(is_stopping=control.must_stop)
    return StageCall(set_up_stage(stage, folder, hooks), outputs, control.now)


def _draw(listing: Listing, control: Control) -> Admitted:
    """Return the next sources, collected for up to `LISTING_SECONDS`."""
    batch: Admitted = []
    until = control.now() + LISTING_SECONDS
    while len(batch) < ADMIT_BATCH and not listing.is_ended and control.now() < until:
        batch += listing.draw(1)
    return batch
