"""The parts of a generator's answer equal the whole answer, wherever the answer is split."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.stage import stage_call
from strandline.engine.call.stage.receipts import CallPart, ShapeError
from strandline.engine.call.stage.stage_call import PART_BYTES, PART_SECONDS, PART_TASKS, StageCall
from strandline.ledger.tally import Tally
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import Event, StageCounts
from strandline.plan.stages.stage import Stage, StatefulFilter
from strandline.plan.task import FailedTask, Lineage, NoneTask, Slot, Task
from strandline.plan.token import derive_child

SOURCE = b"s" * 16
TOKEN = b"t" * 16
SLOTS = st.lists(st.sampled_from(["task", "none", "filtered"]), max_size=12)


def make_task(data: Any, token: bytes = TOKEN) -> Task:
    return Task(data, None, Lineage(SOURCE, token, "key"))


class Yielding(Stage):
    """Yields a slot for each item of its task's data, or raises if the item is an exception."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def process(self, task: Task) -> Iterator[Slot]:
        """Yield or raise as the task requests."""
        try:
            for number, word in enumerate(task.data):
                self.count("seen")
                if isinstance(word, Exception):
                    raise word
                yield make_slot(word, number)
        finally:
            self.is_closed = True


def make_slot(word: Any, number: int) -> Slot:
    marks: dict[Any, Slot] = {"none": None, "filtered": NoneTask(), "failed": FailedTask("no")}
    return marks[word] if word in marks else Task(word if isinstance(word, bytes) else number)


def make_call(stage: Stage, now: Any = lambda: 0.0, **plan: Any) -> StageCall:
    return StageCall(StagePlan("split", "split", stage, streams=True, **plan), None, now)


def join_events(parts: list[CallPart]) -> list[Event]:
    return [event for part in parts for event in part.receipt.events]


def join_tokens(parts: list[CallPart]) -> list[bytes]:
    return [emitted.token for part in parts for emitted in part.receipt.emitted]


def join_counts(parts: list[CallPart]) -> StageCounts:
    counts = StageCounts()
    for part in parts:
        counts.add(part.receipt.counts)
    return counts


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_call, "PART_TASKS", 2)


small_parts = pytest.mark.usefixtures("_small_parts")


@small_parts
@given(answers=st.lists(SLOTS, min_size=1, max_size=4))
def test_law_parts_together_equal_the_whole(answers: list[list[str]]) -> None:
    tasks = [make_task(words, bytes([index]) * 16) for index, words in enumerate(answers)]
    whole_data, whole = StageCall(StagePlan("split", "s", Yielding()), None, lambda: 0.0).run(tasks)

    parts = list(make_call(Yielding()).stream(tasks))

    assert [task.data for part in parts for task in part.data] == [task.data for task in whole_data]
    assert join_tokens(parts) == [emitted.token for emitted in whole.emitted]
    assert join_events(parts) == list(whole.events)
    assert join_counts(parts) == whole.counts
    assert [part.opened is None for part in parts] == [*[False] * (len(parts) - 1), True]
    assert all(len(part.data) <= 2 * len(tasks) for part in parts)


@small_parts
@given(words=SLOTS, lost_after=st.integers(0, 6))
def test_law_a_repeated_call_returns_only_the_rest(words: list[str], lost_after: int) -> None:
    told = list(itertools.islice(make_call(Yielding()).stream([make_task(words)]), lost_after))
    if told and told[-1].opened is None:
        return
    handed = {TOKEN: told[-1].opened.handed} if told and told[-1].opened else {}

    parts = told + list(make_call(Yielding()).stream([make_task(words)], (), handed))

    children = [derive_child((TOKEN,), "split", i) for i, w in enumerate(words) if w == "task"]
    assert join_tokens(parts) == children
    assert join_events(parts) == [Event(SOURCE, (TOKEN,), tuple(children))]
    counts = join_counts(parts)
    assert (counts.tasks_in, counts.tasks_out) == (1, len(children))
    assert counts.filtered == len(words) - len(children)


@small_parts
@given(words=SLOTS, order=st.randoms(use_true_random=False))
def test_law_a_source_finishes_even_if_children_settle_before_their_parent(
    words: list[str], order: Any
) -> None:
    parts = list(make_call(Yielding()).stream([make_task(words)]))
    events = [*join_events(parts), *(Event(SOURCE, (token,), ()) for token in join_tokens(parts))]
    order.shuffle(events)
    tally = Tally(lambda _: False)
    tally.count([Event(SOURCE, (), (TOKEN,))])

    finished = [bool(tally.count([event])) for event in events]

    assert finished == [*[False] * (len(events) - 1), True]


def test_a_part_ends_when_it_is_large_enough() -> None:
    piece = bytes(PART_BYTES // 4)
    parts = list(make_call(Yielding()).stream([make_task([piece] * 9)]))
    assert [len(part.data) for part in parts] == [4, 4, 1]

    parts = list(make_call(Yielding()).stream([make_task(["task"] * (PART_TASKS + 1))]))
    assert [len(part.data) for part in parts] == [PART_TASKS, 1]


def test_a_part_ends_when_it_has_taken_long_enough() -> None:
    ticks = itertools.count(step=PART_SECONDS)
    parts = list(make_call(Yielding(), lambda: next(ticks)).stream([make_task(["task"] * 3)]))
    assert [len(part.data) for part in parts] == [1, 1, 1, 0]


def test_the_time_between_two_parts_does_not_count_for_the_stage() -> None:
    clock = [0.0]
    seconds = 0.0
    parts = make_call(Yielding(), lambda: clock[0]).stream([make_task([bytes(PART_BYTES)] * 3)])
    for part in parts:
        seconds += part.receipt.counts.seconds
        clock[0] += 100.0
    assert seconds == 0.0


@small_parts
@pytest.mark.parametrize("good", [0, 1, 2, 3, 5])
def test_a_generator_that_raises_fails_its_source_and_yields_no_more(good: int) -> None:
    words = [*["task"] * good, ValueError("late")]
    parts = list(make_call(Yielding()).stream([make_task(words), make_task([], b"u" * 16)]))

    assert len(join_tokens(parts)) == good // 2 * 2
    (failure,) = [failure for part in parts for failure in part.receipt.failures]
    assert failure.token == TOKEN
    assert failure.message.startswith("ValueError: late")
    assert join_events(parts) == [Event(SOURCE, (b"u" * 16,), ())]
    assert join_counts(parts).counters == ({"seen": good // 2 * 2} if good // 2 else {})


def test_a_generator_that_yields_fewer_tasks_the_second_time_fails() -> None:
    (part,) = make_call(Yielding()).stream([make_task(["task"])], (), {TOKEN: 3})
    (failure,) = part.receipt.failures
    assert "yielded 1 tasks, but 3 the first time" in failure.message
    assert (part.receipt.events, part.receipt.emitted) == ((), ())


@small_parts
def test_a_slot_that_fails_keeps_its_source_open() -> None:
    parts = list(make_call(Yielding()).stream([make_task(["task", "failed", "task"])]))
    (event,) = join_events(parts)
    assert len(event.children) == 3
    assert [failure.message for part in parts for failure in part.receipt.failures] == ["no"]


@small_parts
def test_other_objects_than_slots_are_refused() -> None:
    class Wrong(Stage):
        def process(self, task: Task) -> Iterator[Any]:
            yield 3

    with pytest.raises(ShapeError, match="put int into a fan-out"):
        list(make_call(Wrong()).stream([make_task([])]))


@small_parts
def test_an_abandoned_call_closes_its_generator() -> None:
    stage = Yielding()
    parts = make_call(stage).stream([make_task(["task"] * 9)])
    next(parts)
    assert not stage.is_closed
    del parts
    gc.collect()
    assert stage.is_closed


@small_parts
def test_an_unwanted_task_is_abandoned_and_the_next_runs() -> None:
    stage, other = Yielding(), b"u" * 16
    call = make_call(stage)
    stream = call.stream([make_task(["task"] * 9), make_task(["none"], other)])
    first = next(stream)
    call.leave(TOKEN)

    (rest,) = stream

    assert (len(first.data), len(rest.data)) == (2, 0)
    assert rest.receipt.events == (Event(SOURCE, (other,), ()),)


@small_parts
def test_efforts_of_all_parts_add_up_to_the_counts() -> None:
    ticks = itertools.count()
    call = make_call(Yielding(), lambda: float(next(ticks)), is_metered=True)
    parts = list(call.stream([make_task(["task"] * 5)]))

    efforts = [effort for part in parts for _, effort in part.receipt.efforts]
    counts = join_counts(parts)
    assert len(parts) > 1
    assert sum(effort.rows_in for effort in efforts) == counts.rows_in
    assert sum(effort.rows_out for effort in efforts) == counts.rows_out
    assert sum(effort.seconds or 0.0 for effort in efforts) == counts.seconds


class Counting(StatefulFilter, Yielding):
    """Gathers statistics, so its yielded tasks are reported immediately."""

    def flush(self) -> None:
        """Return nothing."""

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Do nothing."""


class Batched(Stage):
    """Answers batches."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        """Return the same tasks."""
        return list(tasks)


def test_only_stages_without_a_group_below_stream() -> None:
    def mark(*stages: tuple[Stage, int | None]) -> list[bool]:
        plans = [StagePlan("s", "s", stage, group=group) for stage, group in stages]
        return [plan.streams for plan in mark_streaming(plans)]

    assert mark((Yielding(), None), (Batched(), None), (Yielding(), None)) == [True, False, True]
    assert mark((Yielding(), None), (Yielding(), 4), (Yielding(), None)) == [False, False, True]
    assert mark((Counting(), None)) == [False]
