"""Metrics of each source are the same whichever engine ran, and whoever died meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import engine_stages as bad
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint

Numbers = dict[tuple[str, str], tuple[int, int, int]]

pytestmark = pytest.mark.usefixtures("local_ray")


class DieOnce(Stage):
    """Kills its worker over the first task that anybody gets."""

    class Params(Stage.Params):
        """Where it is noted that it has."""

        note: str

    params: Params

    def process(self, task: Task) -> Task:
        """The same task."""
        try:
            Path(self.params.note).touch(exist_ok=False)
        except FileExistsError:
            return task
        os._exit(1)


def make_plan(*stages: Stage) -> PipelinePlan:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=12))
    middle = [
        StagePlan(f"stage-{place}", "stage", stage, cpu=0.1, batch_size=4)
        for place, stage in enumerate(stages)
    ]
    sink = StagePlan("text", "text", bad.TextSink(), cpu=0.1, batch_size=3)
    return check_plan("default", "metered", source, [*middle, sink])


def run(plan: PipelinePlan, volume: Path, engine: str) -> tuple[AttemptResult, Numbers]:
    config = AttemptConfig(plan, volume, engine=engine, checkpoint=Checkpoint(source_metrics=True))
    outcome = run_attempt(config)
    store = Store(PipelineFolder.of(volume, "default", "metered").ledger, readonly=True)
    found = {
        (record.key, effort.stage): (effort.rows_in, effort.rows_out, effort.size)
        for _, _, record in store.list_records()
        for effort in record.efforts
    }
    store.close()
    return outcome, found


def test_both_engines_keep_the_same(tmp_path: Path) -> None:
    plan = make_plan(bad.Identity(), bad.Spread())
    _, inline = run(plan, tmp_path / "inline", "inline")
    outcome, ray = run(plan, tmp_path / "ray", "ray")
    assert ray == inline
    assert {stage for _, stage in ray} == {"stage-0", "stage-1", "text"}
    assert sum(size for (_, stage), (_, _, size) in ray.items() if stage == "text") == sum(
        path.stat().st_size for path in Path(outcome.output).rglob("*.txt")
    )


def test_law_they_add_up_though_a_worker_died(tmp_path: Path) -> None:
    plan = make_plan(bad.Identity(), DieOnce(note=str(tmp_path / "note")), bad.Spread())
    outcome, found = run(plan, tmp_path / "ray", "ray")
    assert outcome.code is ExitCode.COMPLETE
    assert len(outcome.incidents) == 1
    for stage, counts in list(outcome.counts.items())[1:]:
        own = [numbers for (_, name), numbers in found.items() if name == stage]
        assert sum(rows for rows, _, _ in own) == counts.rows_in
        assert sum(rows for _, rows, _ in own) == counts.rows_out
