"""Makes plans over numbers with any stages in the middle, for tests of one engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_stages as bad
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult


def make_plan(
    *stages: Stage, count: int = 10, name: str = "numbers", env: dict[str, Any] | None = None
) -> PipelinePlan:
    """Return a plan that passes numbers through stages into text files.

    Args:
        count: number of sources.
        name: name of the pipeline.
        env: runtime environment of the sink's workers.
    """
    source = StagePlan("numbers", "numbers", bad.Numbers(count=count))
    middle = [
        StagePlan(f"stage-{index}", "stage", stage, cpu=0.1) for index, stage in enumerate(stages)
    ]
    last = StagePlan("text", "text", bad.TextSink(), cpu=0.1, runtime_env=env or {})
    return check_plan("default", name, source, [*middle, last])


def run(plan: PipelinePlan, volume: Path, engine: str) -> AttemptResult:
    """Run one attempt."""
    return run_attempt(AttemptConfig(plan, volume, engine=engine))


def find_texts(outcome: AttemptResult) -> list[Path]:
    """Return the text files of an attempt."""
    return list(Path(outcome.output).rglob("*.txt"))
