"""Plans the size of each stage's worker pool, based on measurements.

The caller runs `plan(params, state, inputs)` for each snapshot and passes the returned state to the
next call. docs/design/2026-11-27-how-many-workers.md explains the mathematics. This module has no
side effects, and must not depend on Ray, actors, queues, or a clock.
"""

from __future__ import annotations

import math

from strandline.engine.autoscaler.bin_packing import count_fitting
from strandline.engine.autoscaler.messages import (
    describe_below,
    describe_full,
    describe_growth,
    describe_no_node,
    describe_shrink,
    describe_too_large,
)
from strandline.engine.autoscaler.model import (
    Inputs,
    Placement,
    ScalingParams,
    ScalingPlan,
    ScalingState,
    StageScaling,
)
from strandline.engine.autoscaler.plan_builder import PlanDraft, begin_draft
from strandline.engine.autoscaler.water_filling import find_pace


def plan(params: ScalingParams, state: ScalingState, inputs: Inputs) -> ScalingPlan:
    """Return the workers to start and drain now to maximize sources per second.

    The result depends only on the arguments, and not on the order of the nodes.

    Args:
        params: control how readily the planner changes pools.
        state: the state in the last plan; `ScalingState.begin()` for the first snapshot.
        inputs: the current snapshot. `model` documents which period each count covers.
    """
    draft = begin_draft(params, state, inputs)
    draft.keep_floors()
    wished_since = None
    if not draft.drained:
        draft.share()
        draft.grow()
        wished_since = draft.exchange()
    answers = tuple(_answer_stages(draft))
    grown = {answer.name: inputs.now for answer in answers if answer.start}
    return ScalingPlan(
        stages=answers,
        bottleneck=_find_bottleneck(draft),
        throughput=_predict(draft),
        below=_explain_below(draft),
        state=ScalingState(draft.measures, wished_since, {**state.grown_at, **grown}),
    )


def _answer_stages(draft: PlanDraft) -> list[StageScaling]:
    starts, drains = _list_starts(draft), _list_drains(draft)
    answers = []
    for number, (stage, pool) in enumerate(zip(draft.stages, draft.pools, strict=True)):
        start, drain = starts[number], drains[number]
        count = sum(placement.count for placement in (*start, *drain))
        describe = describe_growth if start else describe_shrink
        why = describe(stage.name, count, draft.reasons[number]) if count else ""
        level = pool.find_level(stage.workers) if pool.is_pacing else None
        answers.append(StageScaling(stage.name, draft.counts[number], start, drain, level, why))
    return answers


def _list_starts(draft: PlanDraft) -> list[tuple[Placement, ...]]:
    """Return the workers to start, except those that must wait until others have drained."""
    site, free = draft.site, dict[int, list[int]]()
    known = [
        max(0, stage.workers - on)
        for stage, on in zip(draft.stages, site.count_workers(), strict=True)
    ]
    starts: list[list[Placement]] = [[] for _ in draft.stages]
    for stage, nodes, each in draft.room.blocks:
        for node in nodes or (None,):
            old = min(known[stage], each)  # already starting, but not yet assigned to a node
            known[stage] -= old
            new = each - old
            if node is not None and site.leaving[node]:
                have = free.setdefault(node, site.find_free_now(node))
                new = min(new, max(0, count_fitting(have, site.needs[stage]) - old))
                for kind, need in enumerate(site.needs[stage]):
                    have[kind] -= need * (old + new)
            if new:
                name = None if node is None else site.nodes[node]
                starts[stage].append(Placement(name, new))
    return [_merge(placements) for placements in starts]


def _list_drains(draft: PlanDraft) -> list[tuple[Placement, ...]]:
    drains: list[list[Placement]] = [[] for _ in draft.stages]
    for (stage, node), count in draft.drained.items():
        drains[stage].append(Placement(draft.site.nodes[node], count))
    return [_merge(placements) for placements in drains]


def _merge(placements: list[Placement]) -> tuple[Placement, ...]:
    """Merge the placements of each node. Return them sorted by node name."""
    counts: dict[str | None, int] = {}
    for node, count in ((placement.node, placement.count) for placement in placements):
        counts[node] = counts.get(node, 0) + count
    return tuple(Placement(node, counts[node]) for node in sorted(counts, key=str))


def _find_bottleneck(draft: PlanDraft) -> str | None:
    levels = [
        (pool.find_level(stage.workers), number)
        for number, (stage, pool) in enumerate(zip(draft.stages, draft.pools, strict=True))
        if pool.is_pacing and stage.waiting
    ]
    return draft.stages[min(levels)[1]].name if levels else None


def _predict(draft: PlanDraft) -> float | None:
    pace = find_pace(draft.pools, draft.counts)
    is_known = all(pool.speed is not None for pool in draft.pools)
    return pace if is_known and pace < math.inf else None


def _explain_below(draft: PlanDraft) -> dict[str, str]:
    return {
        stage.name: describe_below(
            stage.name, draft.counts[number], pool.floor, _explain_room(draft, number)
        )
        for number, (stage, pool) in enumerate(zip(draft.stages, draft.pools, strict=True))
        if draft.counts[number] < pool.floor
    }


def _explain_room(draft: PlanDraft, stage: int) -> str:
    if not draft.site.nodes:
        return describe_no_node()
    needs = draft.stages[stage].needs
    return describe_full(needs) if draft.site.is_large_enough(stage) else describe_too_large(needs)
