"""Where cuts go through a pipeline. It must not know ledgers, nor which sources a cut holds for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import name_keeping
from strandline.plan.stages.stage import Stage


class KeepCut(Stage):
    """Hands on what it gets; what keeps it is the call around it."""


def plan_keeping(plan: PipelinePlan) -> PipelinePlan:
    """Return a plan in which what a stage hands on is kept, where the stage asks for that."""
    if not any(stage.is_kept for stage in plan.stages):
        return plan
    return replace(plan, stages=tuple(mark_streaming(list(add_cuts(plan.stages)))))


def add_cuts(stages: Sequence[StagePlan]) -> Iterator[StagePlan]:
    """Yield stages, each that keeps a cut followed by the one that writes it."""
    for stage in stages:
        yield stage
        if stage.is_kept:
            yield _keep(stage)


def _keep(stage: StagePlan) -> StagePlan:
    # Neighbours that ask for the same share a worker. What is rare is left to the stage itself:
    # here it would be waited for, on the driver's node perhaps, which has none.
    is_common = not (stage.gpu or stage.custom or stage.memory) and stage.cpu <= 1
    return StagePlan(
        name_keeping(stage.name),
        "keep",
        KeepCut(),
        cpu=stage.cpu if is_common else 1.0,
        max_workers=stage.max_workers,
        runtime_env=stage.runtime_env,
        max_age=stage.max_age,
        stores=stage.stores,
        is_lenient=stage.is_lenient,
        keeps=stage.name,
    )
