"""Estimates the cost of a pipeline's requests to models, from real requests for a sample of rows.

Responses are stored in the pipeline's own log, so the run does not pay for them again. This module
must not depend on how requests are made.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from strandline.data.statistics.request_figures import FROM_LOG, SENT
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.paid import PaidStage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.run.revise.marks.measured_rows import RunHere, SampledSource

MOST_SOURCES = 20
_LIMIT = "rows-asked-for"


class NoEstimateError(StrandlineError):
    """Raised if no estimate is possible."""


class AskEstimate(NamedTuple):
    """Estimate for a stage that sends requests to a model, for all sources and with an empty log.

    Attributes:
        stage: name of the stage.
        rows: estimated rows of the stage's input.
        requests, prompt_tokens, completion_tokens: estimated numbers.
        cost: estimated cost, or None if the stage has no prices.
        asked: number of sample rows.
        failed: number of sample rows without a good response.
    """

    stage: str
    rows: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    asked: int
    failed: int


def estimate_costs(
    plan: PipelinePlan, rows: int, sources: int, folder: Path, run: RunHere
) -> tuple[AskEstimate, ...]:
    """Estimate costs by running a pipeline for a sample of rows, up to its last stage with a model.

    Args:
        rows: maximum number of rows to send to models.
        sources: number of all sources.
        folder: the pipeline's own folder on the volume, for the log.

    Raises:
        NoEstimateError: if no stage requests a model, or no row reaches such a stage.
        StageStoppedError: if the model is not available.
        SpecError, StageSetupError: if a stage can't run here.
    """
    positions = [at for at, each in enumerate(plan.stages) if isinstance(each.stage, PaidStage)]
    if not positions:
        raise NoEstimateError(
            "no stage of this pipeline sends requests to a model, so --sample has no effect"
        )
    taken = min(rows, MOST_SOURCES, sources)
    first = positions[0]
    # Round up, so that all tasks together have enough rows.
    limit = RowLimit(rows, -(-rows // max(1, taken)))
    stages = [
        *plan.stages[:first],
        StagePlan(_LIMIT, _LIMIT, limit),
        *(_keep_log(each, folder) for each in plan.stages[first : positions[-1] + 1]),
    ]
    counts, failures = _run(plan, stages, taken, run)
    seen, passed = counts[_LIMIT].rows_in, counts[_LIMIT].rows_out
    if not passed:
        why = f"; {failures[0]}" if failures else ""
        raise NoEstimateError(f"no row of {taken} sources reaches {plan.stages[first].name!r}{why}")
    # Assume that other sources have as many rows as the sources in the sample.
    scale = seen / passed * sources / taken
    return tuple(
        _estimate(plan.stages[at].stage, plan.stages[at].name, counts, scale) for at in positions
    )


class RowLimit(Stage):
    """Passes some rows of each task until a total is reached. Counts within one process.

    Args:
        rows: maximum number of rows in total.
        share: maximum number of rows of a task.
    """

    def __init__(self, rows: int, share: int) -> None:
        super().__init__()
        self._left, self._share = rows, share

    def process(self, task: Task) -> Task | None:
        """Return the first rows of a task, or None if there are enough rows."""
        rows = min(self._left, self._share, task.num_rows)
        self._left -= rows
        return task.replace(task.table.slice(0, rows)) if rows else None


class EmptySink(SinkStage):
    """A sink that writes nothing."""

    suffix = ".empty"

    def write(self, task: Task, file: BinaryIO) -> None:
        pass


def _run(
    plan: PipelinePlan, stages: Sequence[StagePlan], sources: int, run: RunHere
) -> tuple[Mapping[str, StageCounts], list[str]]:
    inner = plan.source.stage
    assert isinstance(inner, SourceStage)  # checked when the plan is built
    with tempfile.TemporaryDirectory(prefix="strandline-plan-") as folder:
        sampled = replace(
            plan,
            source=replace(plan.source, stage=SampledSource(inner, sources)),
            stages=(*stages, StagePlan("nothing", "nothing", EmptySink())),
            output=f"{folder}/output",
        )
        result = run(sampled)
    return result.counts, [f"{each.key}: {each.message}" for each in result.failures]


def _keep_log(plan: StagePlan, folder: Path) -> StagePlan:
    """Return the plan of a stage that stores its responses in the log that the run reads."""
    if not isinstance(plan.stage, PaidStage):
        return plan
    # Drop a row without a response, so that its source does not fail. The row is counted.
    return replace(plan, stage=plan.stage.log_to(folder, plan.name), on_error="drop")


def _estimate(
    stage: Stage, name: str, counts: Mapping[str, StageCounts], scale: float
) -> AskEstimate:
    assert isinstance(stage, PaidStage)  # checked by the caller
    own = counts[name]
    counters = own.counters
    requests = counters.get(SENT, 0) + counters.get(FROM_LOG, 0)
    prompt = _scale_tokens(counters, "prompt tokens", own.rows_in, scale)
    completion = _scale_tokens(counters, "completion tokens", own.rows_in, scale)
    return AskEstimate(
        name,
        round(own.rows_in * scale),
        round(requests * scale),
        prompt,
        completion,
        stage.price(prompt, completion),
        own.rows_in,
        own.rows_in - counters.get("answers", 0),
    )


def _scale_tokens(counters: Mapping[str, int], name: str, rows: int, scale: float) -> int:
    """Return the tokens of all rows. For rows without a good response, assume the average."""
    answers = counters.get("answers", 0)
    return round(counters.get(name, 0) / answers * rows * scale) if answers else 0
