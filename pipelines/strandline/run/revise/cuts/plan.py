"""Where cuts go through a pipeline. It must not know ledgers, nor which sources a cut holds for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import name_cut_stage
from strandline.plan.stages.stage import Stage


class CutStage(Stage):
    """Hands on its tasks; the call around the stage writes the cut."""


def plan_cuts(plan: PipelinePlan) -> PipelinePlan:
    """Return a plan with a cut behind each stage that asks for one."""
    if not any(stage.has_cut for stage in plan.stages):
        return plan
    return replace(plan, stages=tuple(mark_streaming(list(add_cuts(plan.stages)))))


def add_cuts(stages: Sequence[StagePlan]) -> Iterator[StagePlan]:
    """Yield stages, those with a cut followed by the one that writes it."""
    for stage in stages:
        yield stage
        if stage.has_cut:
            yield _make_cut(stage)


def _make_cut(stage: StagePlan) -> StagePlan:
    # Neighbours that ask for the same share a worker. What is rare is left to the stage itself:
    # here it would be waited for, on the driver's node perhaps, which has none.
    is_common = not (stage.gpu or stage.custom or stage.memory) and stage.cpu <= 1
    return StagePlan(
        name_cut_stage(stage.name),
        "keep",
        CutStage(),
        cpu=stage.cpu if is_common else 1.0,
        max_workers=stage.max_workers,
        runtime_env=stage.runtime_env,
        max_age=stage.max_age,
        stores=stage.stores,
        is_lenient=stage.is_lenient,
        cut_of=stage.name,
    )
