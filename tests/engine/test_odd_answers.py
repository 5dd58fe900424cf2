"""Malformed answers and unusual errors of a stage fail only their source."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shell_streams import own_stdout
from strandline.engine.call.stage.stage_call import StageCall
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, Lineage, Slot, Task
from test_execution import (
    SOURCE,
    TOKEN,
    Answering,
    Batched,
    call,
    make_task,
    make_tasks,
    rows_of,
    spoil,
)


class MuteError(Exception):
    """An error that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MuteError(), "MuteError"),
        (ValueError("a \ud800 b"), "ValueError: a \\ud800 b"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (RecursionError("deep"), "RecursionError: deep"),
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_an_odd_error_fails_only_its_source(
    error: BaseException, said: str, is_batch: bool
) -> None:
    def answer(task: Task) -> Task:
        if task.data == 1:
            raise error
        return task

    def answer_all(tasks: list[Task]) -> list[Task]:
        return [answer(task) for task in tasks]

    stage = Batched(answer_all) if is_batch else Answering(answer)
    data, receipt = call(stage, make_tasks(3), batch_size=3)

    assert [task.data for task in data] == [0, 2]
    (failure,) = receipt.failures
    assert failure.token == b"\1" * 16
    assert failure.message.startswith(said)
    failure.message.encode()


def test_a_keyboard_interrupt_raised_by_code_fails_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(task: Task) -> Task:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # with Python's handler, this is a real key press
        call(Answering(answer), [make_task()])
    monkeypatch.setattr(signal, "getsignal", lambda _: lambda *_: None)
    _, receipt = call(Answering(answer), [make_task()])
    assert receipt.failures[0].message.startswith("KeyboardInterrupt")


@pytest.mark.parametrize(("message", "said"), [("\ud800!", "\\ud800!"), (7, "7"), (None, "None")])
def test_a_failed_tasks_message_is_always_printable(message: Any, said: str) -> None:
    _, receipt = call(Answering(FailedTask(message)), [make_task()])
    assert receipt.failures[0].message == said


def test_a_generator_is_a_fan_out_and_fails_its_source_if_it_raises_late() -> None:
    def answer(task: Task) -> Iterator[Slot]:
        yield Task("first")
        if task.data == 1:
            msg = "too late"
            raise ValueError(msg)
        yield None

    data, receipt = call(Answering(answer), make_tasks(3))

    assert [task.data for task in data] == ["first"] * 2
    assert [len(event.children) for event in receipt.events] == [1, 1]
    (failure,) = receipt.failures
    assert failure.token == b"\1" * 16
    assert failure.message.startswith("ValueError: too late (test_odd_answers.py:")


def close_number() -> None:
    os.close(1)


def close_object() -> None:
    sys.stdout.close()


@pytest.mark.parametrize("close", [close_number, close_object])
@pytest.mark.parametrize("is_raised", [False, True])
def test_a_stage_that_closes_stdout_fails_its_source_and_others_can_print(
    close: Callable[[], None], is_raised: bool, tmp_path: Path
) -> None:
    def answer(task: Task) -> Task:
        if task.data == 1:
            close()
            if is_raised:
                raise ValueError
        else:
            print(f"task {task.data}")
        return task

    path = tmp_path / "printed"
    with own_stdout(path):
        data, receipt = call(Answering(answer), make_tasks(3))

    assert [task.data for task in data] == [0, 2]
    (failure,) = receipt.failures
    said = (
        "ValueError (test_odd_answers.py:"
        if is_raised
        else "it closed stdout, which other code writes to; lea"
    )
    assert failure.message.startswith(said)
    assert path.read_text() == "task 0\ntask 2\n"


@pytest.mark.parametrize("counters", [None, {"lock": threading.Lock(), "\ud800": 2, 3: 1}])
def test_invalid_counters_are_omitted(counters: Any) -> None:
    class Odd(Stage):
        def process(self, task: Task) -> Task:
            self.counters = counters
            return task

    _, receipt = call(Odd(), make_tasks(2))

    assert receipt.counts.counters == ({} if counters is None else {"\\ud800": 2, "3": 1})
    assert receipt.failures == ()


def test_work_of_a_call_is_shared_although_its_tasks_were_changed() -> None:
    def answer(task: Task) -> Task:
        spoil(task)
        return Task(1)

    task = Task(rows_of(1), {}, Lineage(SOURCE, TOKEN, "key"))
    _, receipt = call(Answering(answer), [task], is_metered=True)

    assert [(source, effort.rows_in) for source, effort in receipt.efforts] == [(SOURCE, 1)]


def test_an_unreadable_task_fails_with_its_group() -> None:
    unreadable = [(Lineage(SOURCE, b"u" * 16, "other"), "no")]
    for group, wanted in ((None, [0, 1]), (2, [])):
        ticks = iter((1.0, 2.0))
        plan = StagePlan("s", "s", Answering(lambda task: Task(task.data)), group=group)
        made = StageCall(plan, None, partial(next, ticks))
        data, receipt = made.run(make_tasks(2), unreadable)
        assert [task.data for task in data] == wanted
        assert [(failure.token, failure.message) for failure in receipt.failures] == [
            (b"u" * 16, "no")
        ]
        assert receipt.counts.tasks_in == 3
