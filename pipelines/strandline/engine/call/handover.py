"""Packs and unpacks the input and output of a call for transport between processes.

A payload that can't be pickled or unpickled fails only its own source. All engines share this
module, so that they count failures in the same way. The receiver may be in any process or on any
node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.stage.receipts import format_message
from strandline.engine.call.stage.trials import was_typed
from strandline.engine.call.wire import Plain, read_lineage, unpack_task
from strandline.plan.receipt import Failure, Receipt
from strandline.plan.task import Lineage, Task

Pack = Callable[[Sequence[Task]], list[Plain]]
Unreadable = tuple[Lineage, str]


def read_input(packed: Iterable[Plain]) -> tuple[list[Task], list[Unreadable]]:
    """Return the readable tasks of a call, and the unreadable tasks with reasons."""
    tasks: list[Task] = []
    unreadable: list[Unreadable] = []
    for content in packed:
        try:
            tasks.append(unpack_task(content))
        except BaseException as error:
            if was_typed(error):
                raise
            what = f"its input can't be unpickled: {explain_error(error)}"
            unreadable.append((read_lineage(content), what))
    return tasks, unreadable


def pack_answers(
    name_stage: Callable[[int], str], data: Sequence[Task], receipt: Receipt, pack: Pack
) -> tuple[list[Task], list[Plain], Receipt]:
    """Pack the output of a call. Return the kept tasks, the packed tasks, and the receipt.

    Tasks that can't be packed are left out, and are failures in the receipt.

    Args:
        name_stage: returns the name of the stage that made the task at a position.
        pack: packs tasks; raises an error if a task can't be packed.
    """
    try:
        return list(data), pack(data), receipt
    except BaseException as error:
        if was_typed(error):
            raise  # for other errors, find the task by packing each task alone
    positions: dict[int, int] = {}
    kept: list[Task] = []
    packed: list[Plain] = []
    failures: list[Failure] = []
    for position, task in enumerate(data):
        content, problem = pack_alone(task, pack)
        if problem is not None:
            failures.append(_blame(name_stage(position), task, f"its result {problem}"))
            continue
        positions[position] = len(kept)
        kept.append(task)
        packed += content
    return kept, packed, _without(receipt, positions, failures, data)


def pack_alone(task: Task, pack: Pack) -> tuple[list[Plain], str | None]:
    """Pack a single task. Return the packed task, or the reason why the task can't be packed."""
    try:
        return pack([task]), None
    except BaseException as error:
        if was_typed(error):
            raise
        return [], f"can't be pickled: {explain_error(error)}"


def _blame(stage: str, task: Task, what: str) -> Failure:
    assert task.lineage is not None  # every emitted task has a lineage
    source, token, key, _ = task.lineage
    return Failure(source, key, token, stage, format_message(what))


def _without(
    receipt: Receipt, positions: dict[int, int], failures: list[Failure], data: Sequence[Task]
) -> Receipt:
    """Return a receipt that emits only the kept tasks and includes the failures of the others."""
    lost = [task for position, task in enumerate(data) if position not in positions]
    counts = replace(
        receipt.counts,
        tasks_out=receipt.counts.tasks_out - len(lost),
        rows_out=receipt.counts.rows_out - sum(task.num_rows for task in lost),
        failed=receipt.counts.failed + len(failures),
    )
    emitted = tuple(
        emission._replace(position=positions[emission.position])
        for emission in receipt.emitted
        if emission.position in positions
    )
    failed = (*receipt.failures, *failures)
    return receipt._replace(emitted=emitted, failures=failed, counts=counts)
