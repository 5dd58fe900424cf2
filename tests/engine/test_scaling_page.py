"""The numbers in docs/engine.md and in the design note on the number of workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaling_cases import World, make_inputs, make_stage
from scaling_player import Part
from scaling_simulator import find_optimum
from strandline.engine.autoscaler.model import NodeResources, ScalingParams, ScalingState
from strandline.engine.autoscaler.planner import plan

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "engine.md").read_text(encoding="utf-8")
NOTE = (DOCS / "design/2026-11-27-how-many-workers.md").read_text(encoding="utf-8")
COSTS = {"read": 0.1, "label": 1.0, "write": 0.2}
STAGES = tuple(make_stage(name, cost) for name, cost in COSTS.items())


def allocate(cpus: int) -> list[int]:
    answer = plan(
        ScalingParams(), ScalingState.begin(), make_inputs(STAGES, {"n": NodeResources(cpu=cpus)})
    )
    return [stage.workers for stage in answer.stages]


def test_the_table_of_steps_is_what_the_planner_does() -> None:
    names = list(COSTS)
    for cpus in range(3, 9):
        workers = allocate(cpus)
        levels = [round(count / cost) for count, cost in zip(workers, COSTS.values(), strict=True)]
        slowest = names[levels.index(min(levels))] if cpus < 8 else "–"
        read, label, write = workers
        shown = ", ".join(map(str, levels))
        assert f"| {cpus} | {read} | {label} | {write} | {shown} | {slowest} |" in NOTE


def test_the_fractions_are_those_of_the_linear_programme() -> None:
    parts = [Part(name, cost) for name, cost in COSTS.items()]

    optimum, workers = find_optimum(parts, [1.0] * 3, [NodeResources(cpu=8)], 0)
    on_eighty, _ = find_optimum(parts, [1.0] * 3, [NodeResources(cpu=80)], 0)

    assert f"t = 7 / 1.2 = {optimum:.2f}, with {workers[0]:.0f}, {workers[1]:.2f}" in NOTE
    assert f"and {workers[2]:.2f} workers" in NOTE
    pace = min(count / cost for count, cost in zip(allocate(80), COSTS.values(), strict=True))
    share = f"it is {pace:.0f}: of the {on_eighty:.2f} that fractions would give, "
    assert f"{share}{100 * pace / on_eighty:.0f} %" in NOTE


def test_a_run_prints_the_numbers_of_the_page() -> None:
    world = World([make_stage(name, None) for name in COSTS], {"n": NodeResources(cpu=8)})
    world.look()
    assert list(world.count().values()) == [3, 3, 2]
    world.stages = STAGES

    said = [stage.why for _ in range(10) for stage in world.look().stages if stage.why]

    assert len(said) == 2
    for why in said:
        assert f"\n{why}\n" in NOTE


def test_the_page_quotes_the_planners_sentence_about_a_floor() -> None:
    stages = [make_stage("caption", 1.0, NodeResources(cpu=1, gpu=1))]

    answer = plan(
        ScalingParams(), ScalingState.begin(), make_inputs(stages, {"n": NodeResources(cpu=8)})
    )

    assert f"\n{answer.below['caption']}\n" in PAGE


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (ScalingParams().gain, "a pace that is at least 10 % higher"),
        (ScalingParams().limit, "only if, for 3 seconds, the exchange"),
        (ScalingParams().settle, "grew in the last 5 seconds"),
        (ScalingParams().headroom - 1, "grows to up to a quarter more workers"),
        (ScalingParams().memory_seconds, "during ten working seconds"),
        (ScalingParams().memory_tasks, "during fifty tasks if those"),
    ],
)
def test_the_page_names_the_defaults(value: float, words: str) -> None:
    numbers = {"a quarter": 0.25, "10 %": 0.1, "3 sec": 3, "5 sec": 5, "ten": 10, "fifty": 50}

    assert words in PAGE
    assert [number for word, number in numbers.items() if word in words] == [value]
