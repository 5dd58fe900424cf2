"""Metrics of sources add up to the counts of the run, and are kept only on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_project import Call, Project
from example_counts import scale_examples
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest
from strandline_api.spec.policy import Checkpoint

SPLIT = (
    "def process(self, task: Task) -> list[Task]:\n"
    "    return [task.replace(task.table.slice(0, 1)) for _ in range(3)]"
)
PICKY = (
    "def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:\n"
    "    def answer(task):\n"
    "        length = sum(len(str(row)) for row in task.table.to_pylist())\n"
    "        if length % 11 == 0:\n"
    "            return FailedTask('no')\n"
    "        return NoneTask() if length % 5 == 0 else task\n"
    "    return [answer(task) for task in tasks]"
)


def export(call: Call) -> list[dict[str, Any]]:
    result = call("ledger", "export", "pipeline.yaml", "--metrics", "out.parquet")
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = pq.read_table("out.parquet").to_pylist()
    assert result.stderr == f"{len(rows)} row{'s' * (len(rows) != 1)} written to out.parquet\n"
    return rows


def sum_up(rows: list[dict[str, Any]], stage: str, column: str) -> float:
    return sum((row[column] for row in rows if row["stage"] == stage), 0.0)


@pytest.fixture
def metered(project: Project) -> Project:
    project.spec["checkpoint"] = {"sourceMetrics": True}
    project.add_stage(SPLIT)
    project.spec["stages"][-1]["name"] = "split"
    project.save()
    return project


def test_each_stage_of_each_source_has_a_row(metered: Project, run: Call, call: Call) -> None:
    outcome = json.loads(run("--json").stdout.splitlines()[-1])
    rows = export(call)
    stages = [stage["name"] for stage in outcome["stages"][1:]]
    assert {(row["key"], row["stage"]) for row in rows} == {
        (f"in/{number}.txt", stage) for number in range(3) for stage in stages
    }
    for stage in outcome["stages"][1:]:
        assert sum_up(rows, stage["name"], "rows_in") == stage["rowsIn"]
        assert sum_up(rows, stage["name"], "rows_out") == stage["rowsOut"]
        assert sum_up(rows, stage["name"], "seconds") == pytest.approx(stage["seconds"], abs=2e-3)
    written = sum(map(len, metered.list_outputs().values()))
    assert sum_up(rows, "jsonl", "bytes") == written
    assert {row["attempt"] for row in rows} == {1}


def test_metrics_are_not_kept_by_default(project: Project, run: Call, call: Call) -> None:
    run()
    assert export(call) == []


def test_a_changed_source_is_counted_again(metered: Project, run: Call, call: Call) -> None:
    run()
    before = {row["key"]: row for row in export(call) if row["stage"] == "jsonl"}
    (metered.path / "in/1.txt").write_text("Another note, which is longer.\n")
    run()
    after = {row["key"]: row for row in export(call) if row["stage"] == "jsonl"}
    assert after["in/0.txt"] == before["in/0.txt"]
    assert after["in/1.txt"]["attempt"] == 2
    assert after["in/1.txt"]["bytes"] > before["in/1.txt"]["bytes"]


def test_enabling_metrics_redoes_nothing(project: Project, run: Call, call: Call) -> None:
    run()
    project.spec["checkpoint"] = {"sourceMetrics": True}
    project.save()
    assert "nothing left to do" in run().stdout


@pytest.mark.parametrize("words", [["--to", "x"], ["--state", "failed"], ["--format", "jsonl"]])
def test_metrics_cannot_be_combined_with_other_options(
    words: list[str], project: Project, call: Call
) -> None:
    result = call("ledger", "export", "pipeline.yaml", "--metrics", "out.parquet", *words)
    assert (result.exit_code, "can't be combined" in result.stderr) == (64, True)


@settings(
    max_examples=scale_examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(data=st.data())
def test_law_metrics_of_all_sources_add_up_to_the_counts_of_the_run(
    data: st.DataObject, metered: Project, call: Call
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=12))
    for path in (metered.path / "in").iterdir():
        path.unlink()
    for number, length in enumerate(lengths):
        (metered.path / f"in/{number}.txt").write_text("word " * length)
    if len(metered.spec["stages"]) == 3:
        metered.add_stage(PICKY)
        metered.spec["stages"][-1] |= {"name": "picky"}
    metered.spec["stages"][-1]["batchSize"] = data.draw(st.integers(1, 4))
    metered.save()
    volume = Path(f"volume-{data.draw(st.uuids())}")
    plan = read_manifest(Path("pipeline.yaml")).plan
    config = AttemptConfig(plan, volume, "inline", checkpoint=Checkpoint(source_metrics=True))

    outcome = run_attempt(config)

    result = call(
        "ledger", "export", "pipeline.yaml", "--volume", str(volume), "--metrics", "out.parquet"
    )
    assert result.exit_code == 0
    rows = pq.read_table("out.parquet").to_pylist()
    assert len({row["key"] for row in rows}) == outcome.standing.finished
    for name, counts in list(outcome.counts.items())[1:]:
        sums = {each: sum_up(rows, name, each) for each in ("rows_in", "rows_out", "seconds")}
        if outcome.standing.failed:  # the work of failed sources is not recorded
            assert sums["rows_in"] <= counts.rows_in
            assert sums["rows_out"] <= counts.rows_out
            assert sums["seconds"] <= counts.seconds * 1.0001
        else:
            assert sums == {
                "rows_in": counts.rows_in,
                "rows_out": counts.rows_out,
                "seconds": pytest.approx(counts.seconds),
            }
