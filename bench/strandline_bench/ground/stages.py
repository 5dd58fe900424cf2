"""Stages that do nothing, sleep, or keep a core busy for a known time.

The stages have their own module because workers import it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa
from pydantic import Field

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, NoneTask, Task

BATCH = 16
PAYLOAD = b"x" * 100


class Numbers(SourceStage):
    """Lists numbered sources with a small payload."""

    class Params(SourceStage.Params):
        """Configures the number of sources."""

        count: int = Field(ge=0)
        is_empty: bool = False

    params: Params

    def list_sources(self) -> Iterator[Source]:
        data = pa.table({}) if self.params.is_empty else PAYLOAD
        for number in range(self.params.count):
            yield Source(f"number-{number:013d}", "1", data)


class Pass(Stage):
    """Returns its tasks unchanged."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return list(tasks)


class Drop(Stage):
    """Filters out its tasks, so that the sink writes nothing."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return [NoneTask() for _ in tasks]


class Busy(Stage):
    """Keeps a core busy for a millisecond per task."""

    def process(self, task: Task) -> Task:
        end = time.thread_time() + 0.001
        while time.thread_time() < end:
            sum(range(100))  # work in user space; the loop would otherwise only read the clock
        return task


class Doze(Stage):
    """Sleeps, like a stage that waits for a remote model."""

    class Params(Stage.Params):
        """Configures the duration of the sleep."""

        seconds: float

    params: Params

    def process(self, task: Task) -> Task:
        time.sleep(self.params.seconds)
        return task


class Nowhere(SinkStage):
    """Accepts tasks without rows, for which the runtime writes no files."""

    suffix = ".none"

    def write(self, task: Task, file: BinaryIO) -> None:
        raise NotImplementedError


def plan_busy(count: int, workers: int, output: str) -> PipelinePlan:
    """Return a pipeline of one-millisecond tasks on this many workers, without output files."""
    stages = [
        StagePlan("busy", "busy", Busy(), min_workers=workers, batch_size=BATCH),
        StagePlan("sink", "nowhere", Nowhere(), batch_size=BATCH),
    ]
    return _plan(Numbers(count=count, is_empty=True), stages, output)


def plan_dozing(count: int, seconds: float, workers: int, output: str) -> PipelinePlan:
    """Return a pipeline of sleeping tasks on this many workers, without output files."""
    doze = StagePlan(
        "doze", "doze", Doze(seconds=seconds), min_workers=workers, max_workers=workers
    )
    sink = StagePlan("sink", "nowhere", Nowhere(), max_workers=workers)
    return _plan(Numbers(count=count, is_empty=True), [doze, sink], output)


def plan_empty(count: int, output: str, *, is_apart: bool) -> PipelinePlan:
    """Return a pipeline of three one-worker empty stages and a sink that receives no tasks."""
    stages = [
        StagePlan("first", "pass", Pass(), cpu=0.1, max_workers=1, batch_size=BATCH),
        StagePlan("second", "pass", Pass(), cpu=0.1, max_workers=1, batch_size=BATCH),
        StagePlan("third", "drop", Drop(), cpu=0.1, max_workers=1, batch_size=BATCH),
        StagePlan("sink", "nowhere", Nowhere(), cpu=0.1, max_workers=1),
    ]
    stages = [replace(stage, isolate=is_apart) for stage in stages]
    return _plan(Numbers(count=count), stages, output)


def _plan(source: Numbers, stages: list[StagePlan], output: str) -> PipelinePlan:
    plan = check_plan("bench", "bench", StagePlan("numbers", "numbers", source), stages)
    return replace(plan, output=output)
