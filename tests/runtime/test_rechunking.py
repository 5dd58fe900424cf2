"""One long source among many workers: cut into uneven pieces, joined by sixteen, counted once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

import engine_stages as bad
from strandline.ledger.store.store import Store
from strandline.ledger.verification import verify
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import SinkStage, Stage
from strandline.plan.task import Slot, Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.outputs import LocalOutputs
from strandline_api.outcome.exit_codes import ExitCode

SCENES, GROUP = 150, 16
PATIENCE = 120.0

pytestmark = pytest.mark.usefixtures("local_ray")


class Cut(Stage):
    """Cuts a recording into scenes: some long, some dropped."""

    def process(self, task: Task) -> list[Slot]:
        return [
            None
            if scene % 50 == 7
            else task.replace(pa.table({"frame": [scene] * (1 + scene % 9)}))
            for scene in range(SCENES)
        ]


class Watched(Stage):
    """Tells which process worked on it; the first one waits until another one has, too."""

    class Params(Stage.Params):
        """Where the marks are left, and how many processes are waited for."""

        folder: str = ""
        processes: int = 1

    params: Params

    def process(self, task: Task) -> Task:
        folder = Path(self.params.folder)
        (folder / f"{os.getpid()}.worked").touch()
        end = time.monotonic() + PATIENCE
        while len(list(folder.glob("*.worked"))) < self.params.processes:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.02)
        return task


class Frames(SinkStage):
    """Writes the frames of a group."""

    suffix = ".txt"

    def write(self, task: Task, file: BinaryIO) -> None:
        file.write(" ".join(map(str, task.table.column("frame").to_pylist())).encode())


def make_plan(folder: Path, processes: int) -> PipelinePlan:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=1))
    watched = Watched(folder=str(folder), processes=processes)
    stages = [
        StagePlan("cut", "cut", Cut(), cpu=0.1),
        StagePlan("scenes", "scenes", watched, cpu=0.1, min_workers=processes, group=GROUP),
        StagePlan("frames", "frames", Frames(), cpu=0.1),
    ]
    return check_plan("default", "recording", source, stages)


def read_groups(outcome: AttemptResult) -> list[list[int]]:
    texts = [path.read_text() for path in Path(outcome.output).rglob("*.txt")]
    return sorted([int(frame) for frame in text.split()] for text in texts)


def cut_by_hand() -> list[list[int]]:
    """The frames of each group, if nobody shared the work."""
    kept = [(scene, 1 + scene % 9) for scene in range(SCENES) if scene % 50 != 7]
    groups: dict[int, list[int]] = {}
    for scene, frames in kept:
        groups.setdefault(scene // GROUP, []).extend([scene] * frames)
    return list(groups.values())


@pytest.mark.parametrize(("engine", "workers"), [("inline", 1), ("ray", 3), ("ray-data", 2)])
def test_law_one_long_source_is_shared_among_workers_and_counted_once(
    tmp_path: Path, engine: str, workers: int
) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    plan = make_plan(folder, workers)

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 1)
    assert len(list(folder.glob("*.worked"))) >= workers
    assert read_groups(outcome) == cut_by_hand()
    kept = PipelineFolder.of(tmp_path, "default", "recording")
    store = Store(kept.ledger, readonly=True)
    try:
        assert verify(store, LocalOutputs(kept.output)).problems == []
    finally:
        store.close()
    again = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))
    assert again.message == "nothing left to do: all 1 sources are finished"
