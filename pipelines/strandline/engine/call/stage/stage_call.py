"""Runs a call of a stage: runs the user's code, and derives lineage and receipt from the results.

All engines share this module, so that they count results in the same way. The code runs where the
data is and uses neither queues nor the ledger; the clock and the location of outputs are arguments.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import cast

from strandline.engine.call.payloads import copy_tasks, measure
from strandline.engine.call.stage.answers import AnswerCheck, join_blindly
from strandline.engine.call.stage.cuts import CutCall
from strandline.engine.call.stage.metering import (
    WaitClock,
    find_changes,
    list_roots,
    measure_efforts,
)
from strandline.engine.call.stage.receipts import (
    CallPart,
    FlushError,
    OpenTask,
    ReceiptDraft,
)
from strandline.engine.call.stage.rescue import Rescue
from strandline.engine.call.stage.sink_call import SinkCall
from strandline.engine.call.stage.trials import StageRaisedError, Trials, count_own
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Receipt
from strandline.plan.stages.ends import SharingSink, SinkStage
from strandline.plan.stages.stage import Shape, Stage, StatefulFilter
from strandline.plan.task import (
    DeadLetters,
    FailedRow,
    FailedTask,
    Lineage,
    Origin,
    Task,
    lineage_of,
)
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.outputs.shared_files import SharedFiles

# Limits of one part of a long output. If a stage has yielded this much, the part is sent on.
PART_BYTES = 16 << 20
PART_TASKS = 256
PART_SECONDS = 1.0
WHOLE_CALL = 1 << 62  # no limit on the tasks of a unit
NOTHING_HANDED: Mapping[bytes, int] = MappingProxyType({})
_END = object()


class StageCall:
    """A stage that is set up in its worker and ready to be called.

    Args:
        plan: the stage and its name; `plan.stage` must be this worker's own copy.
        outputs: location of the outputs, for stages that write; otherwise ignored.
        now: returns seconds from any fixed point.
    """

    def __init__(
        self, plan: StagePlan, outputs: OutputStore | None, now: Callable[[], float]
    ) -> None:
        self._plan = plan
        self._stage: Stage = plan.stage
        self._check = AnswerCheck(plan.name)
        self._now = now
        self._waits = WaitClock(now)
        plan.stage.waiting = self._waits.waiting
        self._begun = 0.0  # start of the current part
        self._writing = ReceiptDraft(plan.name)
        self._rest: deque[Task] = deque()  # tasks that have not started
        self._unit: Sequence[Lineage] = ()  # tasks of the current unit
        self._counted: dict[str, int] = {}  # counters at the end of the last unit
        self._left: set[bytes] = set()
        self._trials = Trials(plan.stage)
        self._rescue = Rescue(plan, self._trials, self._forget)
        self._sink = None if outputs is None else _open_sink(plan, outputs, self._trials)
        self._answer: Callable[[Sequence[Task], ReceiptDraft], None] = {
            Shape.TASK: self._answer_tasks,
            Shape.BATCH: self._answer_batches,
            Shape.GROUP: self._answer_group,
            Shape.SINK: self._answer_sink,
        }[plan.shape]
        self._answer_all = self._gather if plan.gathers else self._answer
        self._unit_size = {Shape.TASK: 1, Shape.BATCH: plan.batch_size}.get(plan.shape, WHOLE_CALL)
        if plan.cut_of:
            self._unit_size = WHOLE_CALL
            assert outputs is not None  # every sink has a location
            self._answer_all = CutCall(plan.cut_of, outputs, is_lenient=plan.is_lenient).write

    @property
    def plan(self) -> StagePlan:
        """The stage as it was set up in this worker."""
        return self._plan

    def run(
        self, tasks: Sequence[Task], unreadable: Sequence[tuple[Lineage, str]] = ()
    ) -> tuple[list[Task], Receipt]:
        """Process tasks of a stage that does not stream; like `stream`, but with a single part."""
        (part,) = self.stream(tasks, unreadable)
        return part.data, part.receipt

    def stream(
        self,
        tasks: Sequence[Task],
        unreadable: Sequence[tuple[Lineage, str]] = (),
        handed: Mapping[bytes, int] = NOTHING_HANDED,
    ) -> Iterator[CallPart]:
        """Process tasks, and yield the results. For a stage that joins groups, pass one group.

        Args:
            tasks: the tasks of the call.
            unreadable: tasks of the call whose payload can't be read, with reasons.
            handed: by token, how many slots of a task's output were already passed on.

        Yields:
            The new tasks and their receipt, in one part. A stage that streams yields several parts,
                and continues when the next part is requested.

        Raises:
            ShapeError: if the result can't be attributed to the input.
            VolumeError: if a sink can't write.
            CredentialsRefusedError: if a store no longer accepts the credentials.
        """
        writing = self._writing = ReceiptDraft(self._plan.name)
        self._unit = [lineage for lineage, _ in unreadable]
        writing.counts.calls = 1
        writing.counts.tasks_in = len(unreadable)
        tasks = self._pass_letters(tasks, writing)
        for lineage, message in unreadable:
            writing.fail(lineage, message)
        self._rest = deque(tasks)
        self._begun = self._now()
        if self._plan.streams:
            for opened in self._stream_tasks(writing, handed):
                yield self._close(writing, opened)
                writing.clear()
                self._begun = self._now()
        elif unreadable and self._plan.shape is Shape.GROUP:
            # An unreadable task fails its whole group, because a group is processed as a whole.
            writing.begin_unit(tasks)
            self._rest.clear()
        else:
            while self._rest:
                most = min(self._unit_size, len(self._rest))
                unit = [self._rest.popleft() for _ in range(most)]
                self._begin_unit(unit, writing)
                self._answer_all(unit, writing)
        yield self._close(writing, None)

    def share(self, turn: threading.Lock) -> None:
        """Allow another thread to inspect calls while the user's code runs; see `Trials.turn`."""
        self._trials.turn = turn

    def share_waits(self, note: Callable[[float | None], None]) -> None:
        """Set the callback for the start and end of waits for services; see `WaitClock.note`."""
        self._waits.note = note

    def split(self) -> tuple[CallPart, Sequence[Lineage], list[Task]]:
        """Split off the work that does not belong to the current unit. The caller holds the turn.

        Returns:
            The finished part, the tasks of the current unit, and the tasks that have not started.
        """
        rest = list(self._rest)
        self._rest.clear()
        return self._make_part(self._writing.split(), None), self._unit, rest

    def _begin_unit(self, tasks: Sequence[Task], writing: ReceiptDraft, handed: int = 0) -> None:
        self._end_unit(writing)
        self._unit = [lineage_of(task) for task in tasks]
        writing.begin_unit(() if handed else tasks)
        if handed:  # an earlier call, which passed on the first slots, has counted the task
            writing.taken.append((self._unit[0].source, 0))

    def _end_unit(self, writing: ReceiptDraft) -> None:
        before, self._counted = self._counted, count_own(self._stage.counters)
        if self._counted:
            writing.counts.counters = {
                name: number - before.get(name, 0)
                for name, number in self._counted.items()
                if number != before.get(name)
            }
        writing.end_unit(frozenset([lineage.source for lineage in self._unit]))

    def _pass_letters(self, tasks: Sequence[Task], writing: ReceiptDraft) -> Sequence[Task]:
        """Write dead letters if the stage is a sink. Otherwise, pass them on.

        Return the other tasks.
        """
        letters = [task for task in tasks if isinstance(task.data, DeadLetters)]
        if not letters:
            return tasks
        if self._sink is not None:
            self._sink.write_letters(letters, writing)
        else:
            for task in letters:
                writing.carry(task)
        return [task for task in tasks if not isinstance(task.data, DeadLetters)]

    def leave(self, token: bytes) -> None:
        """Stop producing output for a task, because its source has failed."""
        self._left.add(token)

    def _close(self, writing: ReceiptDraft, opened: OpenTask | None) -> CallPart:
        writing.counts.seconds = self._now() - self._begun
        writing.counts.waited = self._waits.take()
        self._end_unit(writing)
        self._stage.counters, self._counted = {}, {}
        return self._make_part(writing, opened)

    def _make_part(self, writing: ReceiptDraft, opened: OpenTask | None) -> CallPart:
        receipt = writing.close()
        efforts = list(list_roots(writing.taken)) if self._plan.is_first else []
        if self._plan.is_metered:
            efforts += measure_efforts(writing, receipt)
        elif not self._plan.writes:  # sinks and cuts never change the row count
            efforts += find_changes(writing, receipt)
        receipt = receipt._replace(efforts=tuple(efforts))
        return CallPart(writing.data, receipt, opened, writing.units)

    def _gather(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        """Process tasks one by one. Put the state gathered from each task into the task's event."""
        for unit in [tasks] if self._plan.shape is Shape.GROUP else [[task] for task in tasks]:
            lineages = [lineage_of(task) for task in unit]
            own = ReceiptDraft(self._plan.name)
            self._answer(unit, own)
            try:
                piece = self._trials.run(self._flush)
            except StageRaisedError as error:
                self._forget()
                own = ReceiptDraft(self._plan.name)
                own.fail(lineages[0], str(error))
            if not own.failures:
                own.settle(lineages, piece)
            writing.absorb(own)

    def _flush(self) -> bytes | None:
        piece: object = cast("StatefulFilter", self._stage).flush()
        if piece is not None and not isinstance(piece, bytes):
            self._check.refuse(
                f"flushed {type(piece).__name__}; it must be bytes, or None for nothing"
            )
        return piece

    def _forget(self) -> None:
        try:
            self._trials.run(self._flush)
        except StageRaisedError as error:
            raise FlushError(f"stage {self._plan.name!r} can't flush: {error}") from error

    def _answer_tasks(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        for task in tasks:
            self._answer_task(task, self._process, writing)

    def _answer_task(
        self, task: Task, work: Callable[[Task], object], writing: ReceiptDraft
    ) -> Iterator[object] | None:
        """Record the result of one task. If the result is an iterator, only return the iterator."""
        lineage, before = lineage_of(task), self._rescue.copy(task)
        try:
            answer = self._trials.run(partial(work, task))
        except StageRaisedError as error:
            self._rescue.lose([lineage], before, error, self._process, writing)
            return None
        if isinstance(answer, Iterator):
            return answer
        if self._rescue.take([lineage], before, answer, self._process, writing):
            return None
        if isinstance(answer, list):
            writing.fan_out([lineage], answer)
        else:
            writing.pass_on(lineage, self._check.take_slot(answer))
        return None

    def _stream_tasks(
        self, writing: ReceiptDraft, handed: Mapping[bytes, int]
    ) -> Iterator[OpenTask]:
        """Process tasks one by one. Yield whenever the recorded output should be sent on."""
        while self._rest:
            task = self._rest.popleft()
            before = handed.get(lineage_of(task).token, 0)
            self._begin_unit([task], writing, before)
            slots = self._answer_task(task, self._stage.process, writing)
            if slots is not None:
                yield from self._stream(task, slots, before, writing)

    def _stream(
        self, task: Task, slots: Iterator[object], handed: int, writing: ReceiptDraft
    ) -> Iterator[OpenTask]:
        lineage = lineage_of(task)
        tokens, children = (lineage.token,), list[bytes | None]()
        # Keep the current part separate. If an error interrupts the part, the whole part is
        # discarded.
        own, counters = ReceiptDraft(self._plan.name), count_own(self._stage.counters)
        size = 0
        for index in count():
            try:
                slot = self._trials.run(partial(next, slots, _END))
            except StageRaisedError as error:
                if self._rescue.is_on and index >= handed:
                    # Keep all earlier output, because earlier parts may have been sent on.
                    children.append(self._rescue.lose_slot(lineage, task, error, own))
                    break
                self._stage.counters = counters
                writing.fail(lineage, str(error))
                return
            if slot is _END:
                break
            if isinstance(slot, FailedTask | FailedRow) and self._rescue.is_on:
                children.append(self._rescue.lose_yielded(lineage, task, slot, own))
                continue
            origin = Origin(lineage.token, index, 0)
            children.append(own.take_slot(lineage, tokens, origin, slot, is_new=index >= handed))
            size += measure(slot.data) if isinstance(slot, Task) and index >= handed else 0
            del slot  # otherwise, a large task stays in memory until the next one is made
            if own.data and self._is_part(own, size):
                writing.absorb(own)
                yield OpenTask(lineage.token, index + 1)
                if lineage.token in self._left:
                    self._left.discard(lineage.token)
                    return
                own, counters, size = ReceiptDraft(self._plan.name), {}, 0
                writing.taken.append((lineage.source, 0))
        if len(children) < handed:  # the receipt would omit tasks that were already sent on
            what = f"yielded {len(children)} tasks, but {handed} the first time"
            writing.fail(lineage, f"{what}; a stage's output may depend only on its input")
            return
        own.settle_parents([lineage], children)
        writing.absorb(own)

    def _is_part(self, own: ReceiptDraft, size: int) -> bool:
        """Return whether the yielded tasks should be sent on before the stage yields more."""
        if size >= PART_BYTES or len(own.data) >= PART_TASKS:
            return True
        return self._now() - self._begun >= PART_SECONDS

    def _process(self, task: Task) -> object:
        """Return the stage's result for one task.

        A generator is exhausted here, so that its errors are raised here.
        """
        answer = self._stage.process(task)
        return list(answer) if isinstance(answer, Iterator) else answer

    def _answer_batches(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        size = self._plan.batch_size
        for start in range(0, len(tasks), size):
            self._answer_batch(tasks[start : start + size], writing)

    def _answer_batch(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        lineages = [lineage_of(task) for task in tasks]
        # Copy before the first try, which may change the input. A single task is not retried as a
        # whole: only its rows are retried, from the copy in `before`.
        again = copy_tasks(tasks) if len(tasks) > 1 else None
        before = again or [self._rescue.copy(task) for task in tasks]
        try:
            answers = self._trials.run(partial(self._process_batch, tasks))
        except StageRaisedError as error:
            if again is None:  # a single task: only its rows can be retried separately
                for task, lineage in zip(before, lineages, strict=True):
                    self._rescue.lose([lineage], task, error, self._process_one, writing)
                return
            for task in again:
                self._answer_batch([task], writing)
            return
        if len(tasks) == 1 and (len(answers) != 1 or isinstance(answers[0], list)):
            single = answers[0] if len(answers) == 1 else answers
            slots = single if isinstance(single, list) else answers
            if not self._rescue.take(lineages, before[0], slots, self._process_one, writing):
                writing.fan_out(lineages, slots)
            return
        if len(answers) != len(tasks):
            self._check.refuse(
                f"returned {len(answers)} results for a batch of {len(tasks)} tasks; it must "
                "return one result per task, in order: NoneTask() for a filtered task, "
                "FailedTask(msg) for a task to retry"
            )
        for task, lineage, answer in zip(before, lineages, answers, strict=True):
            if not self._rescue.take([lineage], task, answer, self._process_one, writing):
                writing.pass_on(lineage, self._check.take_slot(answer))

    def _process_batch(self, tasks: Sequence[Task]) -> list[object]:
        return self._check.take_list(self._stage.process_batch(list(tasks)))

    def _process_one(self, task: Task) -> object:
        """Return a batch stage's result for one task."""
        answers = self._process_batch([task])
        return answers[0] if len(answers) == 1 else answers

    def _answer_group(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        lineages = [lineage_of(task) for task in tasks]
        before: Task | None = None
        try:
            joined = self._trials.run(lambda: self._stage.join(list(tasks)))
            before = self._rescue.copy(joined)
            answer = self._trials.run(partial(self._process, joined))
        except StageRaisedError as error:
            before = before or join_blindly(tasks)
            self._rescue.lose(lineages, before, error, self._process, writing)
            return
        if self._rescue.take(lineages, before, answer, self._process, writing):
            return
        slots = answer if isinstance(answer, list) else [self._check.take_slot(answer)]
        writing.fan_out(lineages, slots)

    def _answer_sink(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        assert self._sink is not None  # every sink has a location
        self._sink.write(tasks, writing)


def _open_sink(plan: StagePlan, outputs: OutputStore, trials: Trials) -> SinkCall | None:
    stage = plan.stage
    if not isinstance(stage, SinkStage):
        return None
    shared = None
    if isinstance(stage, SharingSink) and plan.target_bytes is not None:
        shared = SharedFiles(stage, plan.target_bytes)
    return SinkCall(stage, outputs, shared, trials)
