"""Sources share files whichever engine runs, also where a run is stopped or a worker is lost."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import engine_stages as bad
from strandline.engine.core.ports import RunProgress
from strandline.ledger.store.store import Store
from strandline.ledger.verification import verify
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.stages.sinks.jsonl_sink import JsonlSink
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode

COUNT = 60
SIZE = 200  # of a source's only line

pytestmark = pytest.mark.usefixtures("local_ray")


class MakeRow(Stage):
    """One row of a number."""

    def process(self, task: Task) -> Task:
        """A table of it."""
        return task.replace(pa.table({"number": [str(task.data).ljust(SIZE - 14)]}))


class DyingSink(JsonlSink):
    """Its first worker dies when a file that several share is all but written."""

    note: str = ""

    def write_shared(self, tasks: list[Task], file: object) -> None:  # type: ignore[override]
        """As ever, unless nobody has died yet."""
        super().write_shared(tasks, file)  # type: ignore[arg-type]
        if self.note and not Path(self.note).exists():
            Path(self.note).touch()
            os._exit(1)


def make_plan(target: int, sink: JsonlSink | None = None) -> PipelinePlan:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=COUNT))
    middle = StagePlan("rows", "rows", MakeRow(), cpu=0.1)
    # On ray-data it is the batch that shares a file, since no more comes together.
    stage = sink or JsonlSink(target_bytes=target)
    last = StagePlan("jsonl", "jsonl", stage, cpu=0.1, batch_size=15)
    return check_plan("default", "sharing", source, [middle, last])


def run(
    plan: PipelinePlan,
    volume: Path,
    engine: str,
    must_stop: Callable[[RunProgress], bool] = lambda _: False,
) -> AttemptResult:
    seen: list[bool] = [False]

    def report(progress: RunProgress) -> None:
        seen[0] = must_stop(progress) or seen[0]

    return run_attempt(AttemptConfig(plan, volume, engine=engine), lambda: seen[0], report)


def read_files(outcome: AttemptResult) -> list[list[int]]:
    """The numbers in each file."""
    paths = sorted(Path(outcome.output).rglob("*.jsonl"))
    return [
        [int(json.loads(line)["number"]) for line in path.read_text().splitlines()]
        for path in paths
    ]


def find_problems(volume: Path, outcome: AttemptResult) -> list[str]:
    store = Store(PipelineFolder.of(volume, "default", "sharing").ledger, readonly=True)
    try:
        return verify(store, open_outputs(outcome.output)).problems
    finally:
        store.close()


@pytest.mark.parametrize("engine", ["inline", "processes", "ray", "ray-data"])
def test_each_row_is_in_one_file_and_files_are_few(engine: str, tmp_path: Path) -> None:
    outcome = run(make_plan(20 * SIZE), tmp_path, engine)
    files = read_files(outcome)
    assert outcome.code is ExitCode.COMPLETE
    assert Counter(number for file in files for number in file) == Counter(range(COUNT))
    assert len(files) < COUNT / 4
    assert find_problems(tmp_path, outcome) == []


@pytest.mark.parametrize("engine", ["inline", "processes", "ray"])
def test_what_waits_to_fill_a_file_is_finished_by_a_stop(engine: str, tmp_path: Path) -> None:
    told: list[int] = []

    def must_stop(progress: RunProgress) -> bool:
        told.append(progress.flow.queues[-1].counts.tasks_in)
        return len(progress.flow.queues[-1]) >= 20

    outcome = run(make_plan(1 << 30), tmp_path, engine, must_stop)
    files = read_files(outcome)
    assert told[-1] == outcome.standing.finished == sum(map(len, files)) >= 20
    assert len(files) == 1
    again = run(make_plan(1 << 30), tmp_path, "inline")
    rows = Counter(number for file in read_files(again) for number in file)
    assert rows == Counter(range(COUNT))
    assert find_problems(tmp_path, again) == []


def test_a_worker_that_dies_over_a_file_leaves_no_row_twice(tmp_path: Path) -> None:
    sink = DyingSink(target_bytes=1 << 30)
    sink.note = str(tmp_path / "note")
    outcome = run(make_plan(0, sink), tmp_path, "ray")
    assert Path(sink.note).exists()
    assert outcome.code is ExitCode.COMPLETE
    rows = Counter(number for file in read_files(outcome) for number in file)
    assert rows == Counter(range(COUNT))
    # What it had not given its name goes before the next attempt.
    assert all(each.startswith("left over: .tmp/") for each in find_problems(tmp_path, outcome))
