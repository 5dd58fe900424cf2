"""How fast a worker is, and how many tasks of each stage one source makes. Pure.

It must not know what is decided by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from strandline.engine.autoscaler.model import Inputs, Measure, Params, StageLook

SURE_TASKS = 100


def update_measures(
    stages: Sequence[StageLook], measures: Mapping[str, Measure], params: Params
) -> dict[str, Measure]:
    """Each stage's measure after this look; a stage without calls keeps what it had."""
    return {
        stage.name: _fade(measures.get(stage.name, Measure()), stage, params) for stage in stages
    }


def _fade(measure: Measure, stage: StageLook, params: Params) -> Measure:
    """Old sums count less by the time worked, but not faster than tasks come in."""
    by_time = stage.seconds / (params.memory_seconds * max(1, stage.workers))
    by_tasks = stage.completed / params.memory_tasks
    keep = math.exp(-min(by_time, by_tasks))
    return Measure(
        measure.tasks * keep + stage.completed, measure.seconds * keep + max(0.0, stage.seconds)
    )


def find_demand(stages: Sequence[StageLook]) -> list[float]:
    """Tasks at each stage for one source: the product of all fan-outs and filters above it."""
    demand = [1.0]
    for stage in stages[:-1]:
        demand.append(demand[-1] * find_ratio(stage.tasks_in, stage.tasks_out))
    return demand


def find_left(inputs: Inputs, demand: Sequence[float]) -> tuple[float, list[float]] | None:
    """What is left to do once the listing has ended: sources' worth, and tasks at each stage.

    What a stage has yet to get from those above it counts. None while the listing goes on.
    """
    if inputs.sources_left is None:
        return None
    coming, left = float(inputs.sources_left), []
    for stage in inputs.stages:
        left.append(stage.waiting + stage.running + coming)
        coming = left[-1] * find_ratio(stage.tasks_in, stage.tasks_out)
    sources = max(tasks / max(one, 1e-9) for tasks, one in zip(left, demand, strict=True))
    return sources, left


def find_ratio(tasks_in: float, tasks_out: float) -> float:
    """Tasks that come out for one that goes in; one, until there is reason to think otherwise."""
    if tasks_in > 0 and tasks_out > 0:
        return tasks_out / tasks_in
    return 1.0 if tasks_in < SURE_TASKS else 0.0
