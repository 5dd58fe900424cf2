"""One call of one stage: the user's code in the middle, lineage and receipt around it.

The same in every engine, so that both count alike. It runs where the data is and sees neither
queues nor ledger; the clock and the place for outputs come in as arguments.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import cast

from strandline.engine.gathered import FlushError
from strandline.engine.metering import share_out
from strandline.engine.receipts import ReceiptDraft, ShapeError
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Output, Receipt
from strandline.plan.stage import Shape, SinkStage, Stage, StatefulFilter
from strandline.plan.task import FailedTask, Lineage, NoneTask, Slot, Task
from strandline.storage.errors import VolumeError
from strandline.storage.outputs import OutputStore

_PASSED_ON = (ShapeError, VolumeError, FlushError)


class StageCall:
    """A stage set up in its worker, ready to be called.

    Args:
        plan: the stage and its name; `plan.stage` must be this worker's own copy.
        outputs: where a sink writes; not used by other stages.
        now: seconds from any fixed point.
    """

    def __init__(
        self, plan: StagePlan, outputs: OutputStore | None, now: Callable[[], float]
    ) -> None:
        self._plan = plan
        self._stage: Stage = plan.stage
        self._outputs = outputs
        self._now = now
        self._answer: Callable[[Sequence[Task], ReceiptDraft], None] = {
            Shape.TASK: self._answer_tasks,
            Shape.BATCH: self._answer_batches,
            Shape.GROUP: self._answer_group,
            Shape.SINK: self._answer_sink,
        }[plan.shape]
        self._answer_all = self._gather if plan.gathers else self._answer

    def run(self, tasks: Sequence[Task]) -> tuple[list[Task], Receipt]:
        """Work on tasks (a group's, where the stage joins groups): the new tasks and the receipt.

        Raises:
            ShapeError: the answer can't be attributed to the input.
            VolumeError: a sink can't write.
        """
        writing = ReceiptDraft(self._plan.name)
        writing.counts.calls = 1
        writing.counts.tasks_in = len(tasks)
        writing.counts.rows_in = sum(task.num_rows for task in tasks)
        begun = self._now()
        self._answer_all(tasks, writing)
        writing.counts.seconds = self._now() - begun
        writing.counts.counters, self._stage.counters = self._stage.counters, {}
        receipt = writing.close()
        if self._plan.is_metered:
            efforts = share_out(self._plan.name, tasks, writing.data, receipt)
            receipt = receipt._replace(efforts=tuple(efforts))
        return writing.data, receipt

    def _gather(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        """Answer task by task; what was gathered of one goes into the event that settles it."""
        for unit in [tasks] if self._plan.shape is Shape.GROUP else [[task] for task in tasks]:
            lineages = [_lineage_of(task) for task in unit]
            own = ReceiptDraft(self._plan.name)
            self._answer(unit, own)
            try:
                piece = self._flush()
            except _PASSED_ON:
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                self._forget()
                own = ReceiptDraft(self._plan.name)
                own.fail(lineages[0], explain_error(error))
            if not own.failures:
                own.settle(lineages, piece)
            writing.absorb(own)

    def _flush(self) -> bytes | None:
        piece: object = cast("StatefulFilter", self._stage).flush()
        if piece is not None and not isinstance(piece, bytes):
            self._refuse(f"flushed {type(piece).__name__}; it must be bytes, or None for nothing")
        return cast("bytes | None", piece)

    def _forget(self) -> None:
        try:
            self._flush()
        except Exception as error:
            why = explain_error(error)
            raise FlushError(f"stage {self._plan.name!r} can't flush: {why}") from error

    def _answer_tasks(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        for task in tasks:
            lineage = _lineage_of(task)
            try:
                answer = self._stage.process(task)
            except _PASSED_ON:
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                writing.fail(lineage, explain_error(error))
                continue
            if isinstance(answer, list):
                writing.fan_out([lineage], answer)
            else:
                writing.pass_on(lineage, self._check(answer))

    def _answer_batches(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        size = self._plan.batch_size
        for start in range(0, len(tasks), size):
            self._answer_batch(tasks[start : start + size], writing)

    def _answer_batch(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        lineages = [_lineage_of(task) for task in tasks]
        try:
            answers = self._check_list(self._stage.process_batch(list(tasks)))
        except _PASSED_ON:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            if len(tasks) == 1:
                writing.fail(lineages[0], explain_error(error))
                return
            for task, lineage in zip(tasks, lineages, strict=True):
                task.lineage = lineage
                self._answer_batch([task], writing)
            return
        if len(tasks) == 1 and (len(answers) != 1 or isinstance(answers[0], list)):
            one = answers[0] if len(answers) == 1 else answers
            writing.fan_out(lineages, one if isinstance(one, list) else answers)
            return
        if len(answers) != len(tasks):
            self._refuse(
                f"answered a batch of {len(tasks)} tasks with {len(answers)}; it must give one "
                "answer a task, in order: NoneTask() for a filtered one, FailedTask(msg) for one "
                "to be tried again"
            )
        for lineage, answer in zip(lineages, answers, strict=True):
            writing.pass_on(lineage, self._check(answer))

    def _answer_group(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        lineages = [_lineage_of(task) for task in tasks]
        try:
            answer = self._stage.process(self._stage.join(list(tasks)))
        except _PASSED_ON:
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            writing.fail(lineages[0], explain_error(error))
            return
        slots = answer if isinstance(answer, list) else [self._check(answer)]
        writing.fan_out(lineages, slots)

    def _answer_sink(self, tasks: Sequence[Task], writing: ReceiptDraft) -> None:
        sink = self._stage
        assert isinstance(sink, SinkStage)  # by its shape
        for task in tasks:
            lineage = _lineage_of(task)
            try:
                writing.write(lineage, self._write(sink, task, lineage))
            except _PASSED_ON:
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                writing.fail(lineage, explain_error(error))

    def _write(self, sink: SinkStage, task: Task, lineage: Lineage) -> tuple[Output, ...]:
        assert self._outputs is not None  # every sink is given its place
        if not task.num_rows:
            return ()
        name = lineage.token.hex() + sink.suffix
        written = self._outputs.write(lineage.source, name, lambda file: sink.write(task, file))
        rows = task.num_rows
        return (Output(lineage.token, sink.suffix, written.size, written.digest, rows),)

    def _check_list(self, answers: object) -> list[object]:
        if not isinstance(answers, list):
            self._refuse(f"answered a batch with {type(answers).__name__}; it must be a list")
        return cast("list[object]", answers)

    def _check(self, answer: object) -> Slot:
        if answer is None or isinstance(answer, (Task, NoneTask, FailedTask)):
            return answer
        if isinstance(answer, list):
            self._refuse("fanned out in a batch, so no child has one parent; set batchSize to 1")
        self._refuse(
            f"answered with {type(answer).__name__}; it must answer with Task, NoneTask or "
            "FailedTask"
        )
        return None

    def _refuse(self, what: str) -> None:
        msg = f"stage {self._plan.name!r} {what}"
        raise ShapeError(msg)


def explain_error(error: BaseException) -> str:
    """An exception in one line: its type, its text, and where the user's code raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def _lineage_of(task: Task) -> Lineage:
    assert task.lineage is not None  # the driver only hands out tasks that have one
    return task.lineage
