"""Our own engine on a case: its stages call the works, and their sources are its items."""

from __future__ import annotations

import cProfile
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from engine_cases import Case
from engine_works import Items, Work
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import SinkStage, Source, SourceStage, Stage
from strandline.plan.task import FailedTask, NoneTask, Task
from strandline.run.attempt import Options, run_attempt
from strandline.run.manifest import read_manifest
from strandline_api.exit_codes import ExitCode

PROFILE = "STRANDLINE_BENCH_PROFILE"  # folder for profiles of workers; workers inherit it
_PROFILE_EVERY = 2.0


class Listed(SourceStage):
    """Lists a case's items, each as a source."""

    items: Callable[[], Items]

    def list_sources(self) -> Iterator[Source]:
        for number, item in enumerate(self.items()):
            yield Source(f"item-{number:013d}", "1", item)


class Working(Stage):
    """Calls a work."""

    class Params(Stage.Params):
        """Which of the case's."""

        place: int

    params: Params
    work: Work
    is_last: bool
    _profile: cProfile.Profile | None = None
    _due = 0.0

    def setup(self) -> None:
        if os.environ.get(PROFILE):
            self._profile = cProfile.Profile()
            self._profile.enable()  # for the thread that runs stages, from here on

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
            name = f"stage-{self.params.place}-{os.getpid()}.prof"
            profile.dump_stats(Path(os.environ[PROFILE]) / name)
            profile.enable()


class Nowhere(SinkStage):
    """A sink to which nothing comes."""

    suffix = ".none"

    def write(self, task: Task, file: BinaryIO) -> None:
        raise NotImplementedError


def run_untracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Without a ledger, as the others."""
    _run(case, folder, Options(None), begin)


def run_tracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """With a ledger: it can be killed and resumed."""
    _run(case, folder, Options(folder / "volume"), begin)


def run_inline(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """In one process, one task after the other."""
    _run(case, folder, Options(None, engine="inline"), begin)


def plan_case(case: Case, output: Path) -> PipelinePlan:
    """A case as a pipeline."""
    if case.manifest is not None:
        return replace(read_manifest(case.manifest, case.settings).plan, output=str(output))
    source = Listed()
    source.items = case.items
    stages = [_plan_stage(case, place) for place in range(len(case.works))]
    stages.append(StagePlan("nowhere", "nowhere", Nowhere(), cpu=0.0, max_workers=1))
    plan = check_plan("bench", case.name, StagePlan("listed", "listed", source), stages)
    return replace(plan, output=str(output))


def _plan_stage(case: Case, place: int) -> StagePlan:
    stage = Working(place=place)
    stage.work, stage.is_last = case.works[place], place + 1 == len(case.works)
    size = case.sizes[place]
    return StagePlan(
        f"stage-{place}",
        "working",
        stage,
        cpu=case.cpu,
        min_workers=size if case.is_sized else 1,
        max_workers=size if case.is_sized else None,
        batch_size=case.batch,
    )


def _run(case: Case, folder: Path, options: Options, begin: Callable[[], None]) -> None:
    plan = plan_case(case, folder / "output")
    begin()
    outcome = run_attempt(plan, options)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
