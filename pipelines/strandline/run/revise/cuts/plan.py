"""Adds cuts to a plan. The module must not depend on ledgers, or on which sources have a cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import name_cut_stage
from strandline.plan.stages.stage import Stage


class CutStage(Stage):
    """Returns its tasks unchanged. The code that calls the stage writes the cut."""


def plan_cuts(plan: PipelinePlan) -> PipelinePlan:
    """Return a plan with a cut after each stage that requests a cut."""
    if not any(stage.has_cut for stage in plan.stages):
        return plan
    return replace(plan, stages=tuple(mark_streaming(list(add_cuts(plan.stages)))))


def add_cuts(stages: Sequence[StagePlan]) -> Iterator[StagePlan]:
    """Yield the stages. After each stage that requests a cut, yield a stage that writes the cut."""
    for stage in stages:
        yield stage
        if stage.has_cut:
            yield _make_cut(stage)


def _make_cut(stage: StagePlan) -> StagePlan:
    # Use the stage's own resources, because neighboring stages with equal requests share a worker.
    # But request no scarce resources: the cut would wait for them, perhaps on the driver's node,
    # which has none.
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
