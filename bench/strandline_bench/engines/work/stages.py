"""Strandline stages that call the work functions of a case. Workers import only this module."""

from __future__ import annotations

import cProfile
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from strandline.plan.stages.ends import SinkStage, Source, SourceStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import FailedTask, NoneTask, Slot, Task
from strandline_bench.engines.work.works import Items, Work

PROFILE = "STRANDLINE_BENCH_PROFILE"  # variable with the folder for profiles, which workers inherit
_PROFILE_EVERY = 2.0


class Listed(SourceStage):
    """Lists a case's items, a source per item."""

    items: Callable[[], Items]

    def list_sources(self) -> Iterator[Source]:
        for number, item in enumerate(self.items()):
            yield Source(f"item-{number:013d}", "1", item)


class Working(Stage):
    """Calls a work function."""

    class Params(Stage.Params):
        """Configures the case, and the index of the work function."""

        index: int

    params: Params
    work: Work
    is_last: bool
    _profile: cProfile.Profile | None = None
    _due = 0.0

    def setup(self) -> None:
        if os.environ.get(PROFILE):
            self._profile = cProfile.Profile()
            self._profile.enable()  # profile the thread that runs stages

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        if self._profile is not None:
            self._dump(self._profile)
        items = self.work([task.data for task in tasks])
        if self.is_last:
            return [NoneTask() for _ in tasks]
        return [task.replace(item) for task, item in zip(tasks, items, strict=True)]

    def _dump(self, profile: cProfile.Profile) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _PROFILE_EVERY
            profile.disable()
            name = f"stage-{self.params.index}-{os.getpid()}.prof"
            profile.dump_stats(Path(os.environ[PROFILE]) / name)
            profile.enable()


class Spreading(Stage):
    """Calls a work function that turns one item into several."""

    work: Work

    def process(self, task: Task) -> list[Slot]:
        return [task.replace(item) for item in self.work([task.data])]


class Nowhere(SinkStage):
    """A sink that receives no tasks."""

    suffix = ".none"

    def write(self, task: Task, file: BinaryIO) -> None:
        raise NotImplementedError
