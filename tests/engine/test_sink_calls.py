"""Outputs become durable in groups: waits are limited, and no receipt leaves too early."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine import inline
from strandline.engine.call.stage.stage_call import StageCall
from strandline.engine.core.call_size import CALL_SECONDS, SINK_SECONDS, TaskCost, bound_call
from strandline.engine.core.ports import Control, Listing
from strandline.engine.inline import SINK_TASKS, run_inline
from strandline.engine.own_ledger import NoLedger
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.ends import SinkStage, Source
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Lineage, Task
from strandline.storage import faults
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalGroup, LocalOutputs


class Day:
    """A clock that advances by given seconds for each task.

    Attributes:
        ends: end times of all tasks.
    """

    def __init__(self, seconds: list[float]) -> None:
        self.now = 0.0
        self.ends: list[float] = []
        self._left = iter(seconds)

    def work(self) -> None:
        """Advance the clock by the time of the next task."""
        self.now += next(self._left)
        self.ends.append(self.now)


class Work(Stage):
    """Spends the time of a task. Copies of the stage in workers share one clock."""

    day: ClassVar[Day]

    def process(self, task: Task) -> Task:
        """Return the same task."""
        self.day.work()
        return task


class Write(SinkStage):
    """Writes a task's data."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the data as text."""
        file.write(str(task.data).encode())


class WatchedOutputs(LocalOutputs):
    """Records the time and size of groups of outputs that became durable together."""

    def __init__(self, root: Path, day: Day) -> None:
        super().__init__(root)
        self.day = day
        self.groups: list[tuple[float, int]] = []

    @contextmanager
    def grouped(self) -> Iterator[LocalGroup]:
        with super().grouped() as group:
            yield group
            self.groups.append((self.day.now, len(group._pending)))


def run(
    seconds: list[float], timeout: float | None = None, data: bytes = b"0"
) -> tuple[Day, WatchedOutputs]:
    day = Work.day = Day(seconds)
    stages = (StagePlan("work", "w", Work()), StagePlan("sink", "s", Write(), timeout=timeout))
    listed = StagePlan("source", "source", Stage())
    plan = PipelinePlan("ns", "name", listed, stages, Fingerprint("", {}))
    sources = (Source(str(number), "1", data) for number in range(len(seconds)))
    with tempfile.TemporaryDirectory() as folder:
        outputs = WatchedOutputs(Path(folder), day)
        control = Control(lambda: False, lambda _: None, lambda: day.now)
        run_inline(plan, Listing(sources), NoLedger(), outputs, control)
        assert len(list(outputs.list_names())) == len(seconds)
    return day, outputs


@given(st.lists(st.sampled_from((0.0, 0.01, 0.1, 1.0, 60.0)), max_size=100))
def test_law_an_output_waits_at_most_a_moment_plus_one_task(
    seconds: list[float],
) -> None:
    day, outputs = run(seconds)
    durable = [time for time, size in outputs.groups for _ in range(size)]
    assert max((size for _, size in outputs.groups), default=0) <= SINK_TASKS
    for number, (made, written) in enumerate(zip(day.ends, durable, strict=True)):
        later = [end for end in day.ends[number:] if end >= made + SINK_SECONDS]
        assert written <= (later or day.ends)[0 if later else -1]


def test_outputs_within_a_moment_are_written_together() -> None:
    _, outputs = run([0.001] * 100)
    assert [size for _, size in outputs.groups] == [1, SINK_TASKS, 35]


def test_few_large_tasks_wait_for_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "SINK_BYTES", 100)
    assert [size for _, size in run([0.001] * 20, data=bytes(25))[1].groups] == [1, 4, 4, 4, 4, 3]
    assert [size for _, size in run([0.001] * 4, data=bytes(101))[1].groups] == [1] * 4


def test_slow_outputs_are_written_at_once() -> None:
    _, outputs = run([60.0] * 3)
    assert outputs.groups == [(60.0, 1), (120.0, 1), (180.0, 1)]


def test_a_task_with_a_time_limit_has_its_own_call() -> None:
    _, outputs = run([0.001] * 3, timeout=5.0)
    assert [size for _, size in outputs.groups] == [1, 1, 1]


def test_calls_of_a_sink_on_ray_are_larger() -> None:
    cost = TaskCost()
    cost.note(StageCounts(tasks_in=1, seconds=CALL_SECONDS), 0)
    assert bound_call(cost, 0, 1) == 1
    assert bound_call(cost, 0, 1, SINK_SECONDS) == 12


@pytest.mark.parametrize("step", [step for step in faults.STEPS if step.startswith("output.")])
def test_law_no_receipt_leaves_before_its_output_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The first output succeeds, and this step fails for the second output."""
    monkeypatch.setattr(faults, "_reached", {step: 0})
    monkeypatch.setenv("STRANDLINE_FAULT", f"{step}:eio:2")
    stage = StageCall(StagePlan("sink", "s", Write()), LocalOutputs(tmp_path), time.monotonic)
    sources = [bytes([number]) * 16 for number in range(3)]
    tasks = [Task("text", None, Lineage(source, source, "key")) for source in sources]
    with pytest.raises(VolumeError, match="input/output error"):
        stage.run(tasks)
