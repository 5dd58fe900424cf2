"""A stage that gathers has a piece per task, in the event that settles the task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.stage.receipts import FlushError, ShapeError
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.call.wire import pack_events, unpack_events
from strandline.ledger.tally import Tally
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Event, Output, Piece, Receipt
from strandline.plan.stages.stage import Shape, StatefulFilter
from strandline.plan.task import FailedTask, Lineage, NoneTask, Origin, Task
from strandline.plan.token import derive_child

SOURCE = b"s" * 16
TOKENS = [bytes([number]) * 16 for number in range(8)]
CHILD = derive_child([TOKENS[0]], "seen", 0)


class Seen(StatefulFilter):
    """Records the data of each task, and answers in the way that the data requests."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.broken = 0

    def process(self, task: Task) -> Any:
        self.seen.append(str(task.data))
        if task.data == "raise":
            raise ValueError(task.data)
        answers = {"drop": None, "fail": [FailedTask("no")], "fan": [task, None, task]}
        return answers.get(task.data, task)

    def flush(self) -> bytes | None:
        if self.broken:
            self.broken -= 1
            raise RuntimeError("broken")
        seen, self.seen = self.seen, []
        return ",".join(seen).encode() or None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        raise NotImplementedError


class SeenInBatches(Seen):
    """`Seen` in batches."""

    process = StatefulFilter.process

    def process_batch(self, tasks: list[Task]) -> list[Any]:
        return [NoneTask() if Seen.process(self, task) is None else task for task in tasks]


def call(stage: Seen, *data: str, **plan: Any) -> tuple[list[Task], Receipt]:
    ticks = itertools.count()
    made = StageCall(StagePlan("seen", "seen", stage, **plan), None, lambda: float(next(ticks)))
    origin = Origin(b"p" * 16, 3, 9)
    return made.run(
        [
            Task(each, None, Lineage(SOURCE, token, "key", origin))
            for each, token in zip(data, TOKENS, strict=False)
        ]
    )


def pieces_of(receipt: Receipt) -> list[tuple[bytes, bytes]]:
    left = [output for event in receipt.events for output in event.outputs]
    assert all(isinstance(piece, Piece) and piece.stage == "seen" for piece in left)
    return [(piece.token, piece.data) for piece in left if isinstance(piece, Piece)]  # type: ignore[misc]


def test_a_passed_task_is_settled_and_its_child_announced() -> None:
    tasks, receipt = call(Seen(), "a")
    event = Event(SOURCE, (TOKENS[0],), (CHILD,), (Piece("seen", TOKENS[0], b"a"),))
    assert (event,) == receipt.events
    assert [CHILD] == [task.lineage.token for task in tasks if task.lineage]
    assert [CHILD] == [emitted.token for emitted in receipt.emitted]
    assert receipt.emitted[0].origin == Origin(b"p" * 16, 3, 9)  # groups still find it


def test_each_task_of_a_call_has_its_own_piece() -> None:
    _, receipt = call(Seen(), "a", "drop", "fan")
    assert [(TOKENS[0], b"a"), (TOKENS[1], b"drop"), (TOKENS[2], b"fan")] == pieces_of(receipt)
    assert [1, 0, 2] == [len(event.children) for event in receipt.events]
    assert [0, 1, 2] == [emitted.position for emitted in receipt.emitted]
    assert (3, 3, 2) == (
        receipt.counts.tasks_in,
        receipt.counts.tasks_out,
        receipt.counts.filtered,
    )


def test_a_batch_has_one_task() -> None:
    stage = SeenInBatches()
    assert Shape.BATCH is StagePlan("seen", "seen", stage).shape
    _, receipt = call(stage, "a", "drop", "b", batch_size=3)
    assert [(TOKENS[0], b"a"), (TOKENS[1], b"drop"), (TOKENS[2], b"b")] == pieces_of(receipt)


def test_a_group_has_one_piece() -> None:
    stage = Seen()
    stage.join = lambda tasks: tasks[0].replace("+".join(task.data for task in tasks))  # type: ignore[method-assign]
    _, receipt = call(stage, "a", "b", group=2)
    (event,) = receipt.events
    assert (event.settled, event.children) == (
        tuple(TOKENS[:2]),
        (derive_child(TOKENS[:2], "seen", 0),),
    )
    assert [(TOKENS[0], b"a+b")] == pieces_of(receipt)


@pytest.mark.parametrize("what", ["raise", "fail"])
def test_data_of_a_failed_task_is_in_no_piece(what: str) -> None:
    _, receipt = call(Seen(), "a", what, "b")
    assert [(TOKENS[0], b"a"), (TOKENS[2], b"b")] == pieces_of(receipt)
    assert [TOKENS[1]] == [failure.token for failure in receipt.failures]


def test_a_flush_that_raises_fails_the_source_without_other_events() -> None:
    stage = Seen()
    stage.broken = 1
    tasks, receipt = call(stage, "drop", "b")
    assert ["RuntimeError: broken"] == [
        failure.message.partition(" (")[0] for failure in receipt.failures
    ]
    # The call must not settle the filtered task, or the source could finish without its piece.
    assert [(TOKENS[1], b"b")] == pieces_of(receipt)
    assert [TOKENS[1]] == [event.settled[0] for event in receipt.events]
    assert ["b"] == [task.data for task in tasks]


def test_a_stage_that_cannot_drop_a_failed_task_ends_the_attempt() -> None:
    stage = Seen()
    stage.broken = 2
    with pytest.raises(FlushError, match="stage 'seen' can't flush: RuntimeError: broken"):
        call(stage, "a")


def test_a_piece_is_bytes() -> None:
    stage = Seen()
    stage.flush = lambda: "text"  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(ShapeError, match="stage 'seen' flushed str; it must be bytes"):
        call(stage, "a")


def test_a_task_without_gathered_data_is_settled_anyway() -> None:
    stage = Seen()
    stage.flush = lambda: None  # type: ignore[method-assign]
    _, receipt = call(stage, "a")
    assert (Event(SOURCE, (TOKENS[0],), (CHILD,)),) == receipt.events


@given(st.permutations(range(4)))
def test_law_no_order_of_events_finishes_a_source_before_its_pieces(order: list[int]) -> None:
    _, first = call(Seen(), "fan")
    (fanned,) = first.events
    leaves = [Event(SOURCE, (child,), ()) for child in fanned.children]
    events = [Event(SOURCE, (), (TOKENS[0],)), fanned, *leaves]
    tally, left = Tally(lambda _: False), []
    for place in order:
        left += tally.count([events[place]])
    assert [(SOURCE, [Piece("seen", TOKENS[0], b"fan")])] == left


def test_pieces_cross_between_processes() -> None:
    left = (Output(TOKENS[0], ".txt", 3, b"d" * 16, 1), Piece("seen", TOKENS[1], b"data"))
    events = [Event(SOURCE, (TOKENS[0],), (), left)]
    assert events == unpack_events(pack_events(events))
