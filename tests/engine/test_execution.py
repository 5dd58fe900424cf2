"""A single stage call: the lineage of its tasks, and the content of the receipt."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from strandline.engine.call.stage.receipts import MESSAGE_CHARACTERS, ShapeError
from strandline.engine.call.stage.stage_call import StageCall
from strandline.ledger.tally import Tally
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import EmittedTask, Event, Output, Receipt
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Lineage, NoneTask, Origin, Slot, Task
from strandline.plan.token import derive_child
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_source_folder

SOURCE = b"s" * 16
TOKEN = b"t" * 16


def make_task(data: Any = 0, token: bytes = TOKEN, origin: Origin | None = None) -> Task:
    return Task(data, None, Lineage(SOURCE, token, "key", origin))


def make_tasks(count: int) -> list[Task]:
    return [make_task(index, bytes([index]) * 16) for index in range(count)]


def call(stage: Stage, tasks: list[Task], **plan: Any) -> tuple[list[Task], Receipt]:
    ticks = itertools.count()
    made = StageCall(StagePlan("stage", "stage", stage, **plan), None, lambda: float(next(ticks)))
    return made.run(tasks)


class Answering(Stage):
    """Returns or raises its configured answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def process(self, task: Task) -> Task | list[Slot] | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(task) if callable(self.answer) else self.answer  # type: ignore[no-any-return]


class Batched(Stage):
    """Answers each batch with the result of a function."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return self.answer(tasks)  # type: ignore[no-any-return]


def test_one_to_one_passes_the_token_on_without_an_event() -> None:
    data, receipt = call(Answering(lambda task: Task(task.data + 1)), [make_task(1)])

    assert receipt.events == ()
    assert [task.data for task in data] == [2]
    assert data[0].lineage == make_task().lineage
    assert receipt.emitted == (EmittedTask(0, SOURCE, TOKEN, None),)


@pytest.mark.parametrize("answer", [None, NoneTask()])
def test_a_filtered_task_settles_its_token(answer: object) -> None:
    data, receipt = call(Answering(answer), [make_task()])

    assert (data, receipt.emitted) == ([], ())
    assert receipt.events == (Event(SOURCE, (TOKEN,), ()),)
    assert receipt.counts.filtered == 1


def test_a_fan_out_settles_its_parent_and_announces_its_children_in_one_event() -> None:
    slots = [Task("a"), None, Task("c"), NoneTask()]

    data, receipt = call(Answering(lambda _: slots), [make_task()])

    children = (derive_child([TOKEN], "stage", 0), derive_child([TOKEN], "stage", 2))
    assert receipt.events == (Event(SOURCE, (TOKEN,), children),)
    assert [task.data for task in data] == ["a", "c"]
    assert [emitted.origin for emitted in receipt.emitted] == [
        Origin(TOKEN, 0, 4),
        Origin(TOKEN, 2, 4),
    ]


def test_a_fan_out_of_nothing_settles_its_parent() -> None:
    _, receipt = call(Answering(lambda _: []), [make_task()])

    assert receipt.events == (Event(SOURCE, (TOKEN,), ()),)


def test_a_failed_slot_of_a_fan_out_fails_the_source() -> None:
    _, receipt = call(Answering(lambda _: [Task(1), FailedTask("no codec")]), [make_task()])

    assert [(failure.source, failure.message) for failure in receipt.failures] == [
        (SOURCE, "no codec")
    ]


def test_a_fan_out_whose_slots_all_failed_keeps_its_source_open() -> None:
    _, receipt = call(Answering(lambda _: [FailedTask("no codec")]), [make_task()])

    tally = Tally(lambda _: False)
    tally.count([Event(SOURCE, (), (TOKEN,))])
    assert tally.count(receipt.events) == []


def test_an_exception_fails_only_its_source() -> None:
    def divide(task: Task) -> Task:
        return task.replace(1 // task.data)

    data, receipt = call(Answering(divide), make_tasks(3))

    assert len(data) == 2
    assert len(receipt.failures) == 1
    assert receipt.failures[0].token == bytes(16)
    assert receipt.failures[0].stage == "stage"
    assert receipt.failures[0].message.startswith("ZeroDivisionError: integer division")
    assert "test_execution.py:" in receipt.failures[0].message


def test_a_long_message_is_cut() -> None:
    _, receipt = call(Answering(ValueError("x" * 10_000)), [make_task()])

    assert len(receipt.failures[0].message) == MESSAGE_CHARACTERS


def test_a_batch_answers_by_position() -> None:
    def answer(tasks: list[Task]) -> list[object]:
        return [tasks[0].replace("zero"), NoneTask(), FailedTask("later"), tasks[3]]

    data, receipt = call(Batched(answer), make_tasks(4), batch_size=4)

    assert [task.data for task in data] == ["zero", 3]
    assert [emitted.token for emitted in receipt.emitted] == [bytes(16), b"\3" * 16]
    assert receipt.events == (Event(SOURCE, (b"\1" * 16,), ()),)
    assert [failure.token for failure in receipt.failures] == [b"\2" * 16]


def test_a_batch_that_raises_is_split_to_find_the_culprit() -> None:
    def answer(tasks: list[Task]) -> list[Task]:
        if any(task.data == 2 for task in tasks):
            msg = "two"
            raise ValueError(msg)
        return tasks

    data, receipt = call(Batched(answer), make_tasks(4), batch_size=4)

    assert [task.data for task in data] == [0, 1, 3]
    assert [failure.token for failure in receipt.failures] == [b"\2" * 16]
    assert receipt.counts.tasks_out == 3


def rows_of(*pairs: Any) -> dict[str, Any]:
    return {"rows": list(pairs), "array": np.arange(2)}


def spoil(task: Task) -> None:
    """Change all data that a stage can reach."""
    task.data["rows"].append("changed")
    task.data["array"] += 1
    task.data = {"rows": ["other"], "array": task.data["array"]}
    assert task.meta is not None
    task.meta["seen"] = True
    task.lineage = None


def test_law_a_try_never_sees_changes_of_another_try() -> None:
    seen: list[Any] = []

    def answer(tasks: list[Task]) -> list[Task]:
        seen.append([(list(task.data["rows"]), task.data["array"].tolist()) for task in tasks])
        assert all(task.meta == {"n": {"deep": 1}} for task in tasks)
        assert all(task.lineage is not None for task in tasks)
        is_bad = any("bad" in task.data["rows"] for task in tasks)
        for task in tasks:
            spoil(task)
        if is_bad:
            raise ValueError
        return tasks

    batch = [
        Task(rows_of(name), {"n": {"deep": 1}}, Lineage(SOURCE, bytes([at]) * 16, "key"))
        for at, name in enumerate(["good", "bad", "fine"])
    ]
    data, receipt = call(Batched(answer), batch, batch_size=3)

    first, *single = seen
    assert single == [[one] for one in first]
    assert [failure.token for failure in receipt.failures] == [b"\1" * 16]
    assert [emitted.token for emitted in receipt.emitted] == [bytes(16), b"\2" * 16]
    assert [task.data["array"].tolist() for task in data] == [[1, 2], [1, 2]]


def test_immutable_data_is_not_copied() -> None:
    array = np.arange(3)
    array.setflags(write=False)
    whole = [pa.table({"n": [1]}), b"bytes", "text", 1, array, (b"x", array)]
    seen: list[Any] = []

    def answer(tasks: list[Task]) -> list[Task]:
        seen.extend(task.data for task in tasks)
        if len(tasks) > 1:
            raise ValueError
        return tasks

    call(
        Batched(answer),
        [make_task(data, bytes([at]) * 16) for at, data in enumerate(whole)],
        batch_size=6,
    )

    assert all(one is other for one, other in zip(seen[:5], seen[6:11], strict=True))
    assert seen[5][1] is seen[11][1]


def test_input_that_can_not_be_copied_fails_with_its_batch() -> None:
    def answer(tasks: list[Task]) -> list[Task]:
        tasks.clear()
        msg = "all of it"
        raise ValueError(msg)

    locks = [make_task(threading.Lock(), bytes([at]) * 16) for at in range(2)]
    _, receipt = call(Batched(answer), locks, batch_size=2)

    assert [failure.token for failure in receipt.failures] == [bytes(16), b"\1" * 16]
    assert all("all of it" in failure.message for failure in receipt.failures)


def test_counters_of_a_failed_try_are_dropped() -> None:
    class Counting(Stage):
        def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
            self.count("seen", len(tasks))
            self.counters["own"] = 1
            if any(task.data == 1 for task in tasks):
                raise ValueError
            return list(tasks)

    class CountingEach(Stage):
        def process(self, task: Task) -> Task:
            self.count("seen")
            if task.data == 1:
                raise ValueError
            return task

    _, receipt = call(Counting(), make_tasks(4), batch_size=4)
    assert receipt.counts.counters == {"seen": 3, "own": 1}
    _, receipt = call(CountingEach(), make_tasks(4))
    assert receipt.counts.counters == {"seen": 3}


def test_a_batch_of_one_may_fan_out() -> None:
    _, receipt = call(Batched(lambda _: [[Task(1), Task(2)]]), [make_task()])

    assert len(receipt.events[0].children) == 2


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda tasks: tasks[1:], "returned 1 results for a batch of 2 tasks"),
        (lambda tasks: [*tasks, Task()], "returned 3 results for a batch of 2 tasks"),
        (tuple, "returned tuple"),
        (lambda _: [[Task()], NoneTask()], "fanned out in a batch"),
        (lambda _: ["text", NoneTask()], "returned str"),
    ],
)
def test_a_shape_without_lineage_is_refused_by_name(answer: Any, sentence: str) -> None:
    with pytest.raises(ShapeError, match=f"stage 'stage' {sentence}"):
        call(Batched(answer), make_tasks(2), batch_size=2)


def test_an_invalid_slot_in_a_fan_out_is_refused_by_name() -> None:
    with pytest.raises(ShapeError, match="'stage' put int into a fan-out"):
        call(Answering(lambda _: [1]), [make_task()])


def test_a_group_settles_all_its_parents_in_one_event() -> None:
    tasks = [make_task(pa.table({"n": [index]}), bytes([index]) * 16) for index in range(3)]

    data, receipt = call(Answering(lambda task: task), tasks, group=3)

    tokens = tuple(bytes([index]) * 16 for index in range(3))
    assert receipt.events == (Event(SOURCE, tokens, (derive_child(tokens, "stage", 0),)),)
    assert data[0].table.column("n").to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_law_a_fan_out_of_a_partial_group_can_be_grouped_again(size: int) -> None:
    tasks = [make_task(index, bytes([index]) * 16, Origin(TOKEN, index, 3)) for index in range(3)]
    stage = Answering(lambda task: [Task(1), None, Task(3)])
    stage.join = lambda tasks: tasks[0]  # type: ignore[method-assign]

    _, receipt = call(stage, tasks[3 - size :], group=3)

    parent = bytes([3 - size]) * 16  # the first remaining task
    origins = [emitted.origin for emitted in receipt.emitted]
    assert origins == [Origin(parent, 0, 3), Origin(parent, 2, 3)]


def test_a_group_that_is_filtered_settles_its_parents() -> None:
    tasks = [make_task(pa.table({"n": [index]}), bytes([index]) * 16) for index in range(2)]

    _, receipt = call(Answering(None), tasks, group=2)

    assert receipt.events == (Event(SOURCE, (bytes(16), b"\1" * 16), ()),)


def test_counts_and_the_stages_own_counters_travel_with_the_receipt() -> None:
    class Counting(Stage):
        def process(self, task: Task) -> Task:
            self.count("dropped: short", 2)
            return task.replace(task.table.slice(1))

    stage = Counting()
    _, receipt = call(stage, [make_task(pa.table({"n": [1, 2, 3]}))])

    counts = receipt.counts
    assert (counts.tasks_in, counts.tasks_out) == (1, 1)
    assert (counts.rows_in, counts.rows_out) == (3, 2)
    assert counts.seconds == 1.0
    assert counts.counters == {"dropped: short": 2}
    assert stage.counters == {}


class Text(SinkStage):
    """Writes a task's data as text, or raises the data."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        if isinstance(task.data, Exception):
            raise task.data
        file.write(str(task.data).encode())


class AlsoEmpty(Text):
    """Also writes a table without rows."""

    writes_empty = True


def call_sink(tasks: list[Task], root: Path, sink: SinkStage | None = None) -> Receipt:
    plan = StagePlan("sink", "sink", sink or Text())
    return StageCall(plan, LocalOutputs(root), lambda: 0.0).run(tasks)[1]


def test_a_sink_names_its_file_after_source_and_token(tmp_path: Path) -> None:
    receipt = call_sink([make_task("hello")], tmp_path)

    path = tmp_path / name_source_folder(SOURCE) / f"{TOKEN.hex()}.txt"
    assert path.read_text() == "hello"
    (event,) = receipt.events
    assert (event.settled, event.children) == ((TOKEN,), ())
    assert [
        (output.token, output.size) for output in event.outputs if isinstance(output, Output)
    ] == [(TOKEN, 5)]


def test_a_sink_writes_no_file_for_a_table_without_rows(tmp_path: Path) -> None:
    receipt = call_sink([make_task(pa.table({"n": pa.array([], pa.int64())}))], tmp_path)

    assert receipt.events == (Event(SOURCE, (TOKEN,), ()),)
    assert list(tmp_path.iterdir()) == []


def test_a_sink_that_supports_empty_tables_writes_them(tmp_path: Path) -> None:
    empty = make_task(pa.table({"n": pa.array([], pa.int64())}))
    receipt = call_sink([empty], tmp_path, AlsoEmpty())

    (event,) = receipt.events
    (output,) = event.outputs
    assert isinstance(output, Output)
    assert (output.token, output.rows) == (TOKEN, 0)
    (path,) = (tmp_path / name_source_folder(SOURCE)).iterdir()
    assert output.size == path.stat().st_size > 0


def test_a_sink_that_raises_fails_the_source_and_leaves_no_file(tmp_path: Path) -> None:
    receipt = call_sink([make_task(KeyError("column"))], tmp_path)

    assert receipt.failures[0].message.startswith("KeyError: 'column'")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_failing_volume_ends_the_call(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    with pytest.raises(VolumeError, match="this is a file, but a folder is needed"):
        call_sink([make_task("hello")], blocked)
