"""A worker dies while it writes a file that sources share."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import engine_stages as bad
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sinks.jsonl_sink import JsonlSink

COUNT = 60
SIZE = 200  # characters in the only line of a source

pytestmark = pytest.mark.usefixtures("local_ray")


class MakeRow(Stage):
    """Makes one row per number."""

    def process(self, task: Task) -> Task:
        """Return a table with the number."""
        return task.replace(pa.table({"number": [str(task.data).ljust(SIZE - 14)]}))


class DyingSink(JsonlSink):
    """A sink whose first worker dies just before a shared file is complete."""

    note: str = ""

    def write_shared(self, tasks: list[Task], file: object) -> None:  # type: ignore[override]
        """Write as the base class does, then die if no worker has died yet."""
        super().write_shared(tasks, file)  # type: ignore[arg-type]
        if self.note and not Path(self.note).exists():
            Path(self.note).touch()
            os._exit(1)


def make_plan(sink: JsonlSink) -> PipelinePlan:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=COUNT))
    middle = StagePlan("rows", "rows", MakeRow(), cpu=0.1)
    last = StagePlan("jsonl", "jsonl", sink, cpu=0.1, batch_size=15)
    return check_plan("default", "sharing", source, [middle, last])


def read_files(outcome: AttemptResult) -> list[list[int]]:
    """Return the numbers in each file."""
    paths = sorted(Path(outcome.output).rglob("*.jsonl"))
    return [
        [int(json.loads(line)["number"]) for line in path.read_text().splitlines()]
        for path in paths
    ]


def find_problems(volume: Path, outcome: AttemptResult) -> list[str]:
    store = Store(PipelineFolder.on_volume(volume, "default", "sharing").ledger, readonly=True)
    try:
        return verify(store, open_outputs(outcome.output)).problems
    finally:
        store.close()


# In the first tier, tests/runtime/crash/test_shared_crashes.py kills a run at each step of a shared
# file, in one process.
@pytest.mark.more
def test_a_worker_that_dies_while_writing_a_file_leaves_no_duplicate_rows(tmp_path: Path) -> None:
    sink = DyingSink(target_bytes=1 << 30)
    sink.note = str(tmp_path / "note")
    outcome = run_attempt(AttemptConfig(make_plan(sink), tmp_path))
    assert Path(sink.note).exists()
    assert outcome.code is ExitCode.COMPLETE
    rows = Counter(number for file in read_files(outcome) for number in file)
    assert rows == Counter(range(COUNT))
    # The next attempt removes temporary files that were not renamed.
    assert all(each.startswith("left over: .tmp/") for each in find_problems(tmp_path, outcome))
