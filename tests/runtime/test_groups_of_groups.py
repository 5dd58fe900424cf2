"""A group that fans out, and what of that is joined again: the same however much was filtered."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine_stages as bad
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stage import Stage
from strandline.plan.task import Slot, Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.usefixtures("local_ray")


class Thrice(Stage):
    """Three tasks of a number n; as many as n of them are kept."""

    def process(self, task: Task) -> list[Slot]:
        return [Task([slot]) if slot < task.data else None for slot in range(3)]


class Widen(Stage):
    """Fans a group out into four tasks that tell what was in it."""

    def join(self, tasks: list[Task]) -> Task:
        return Task([number for task in tasks for number in task.data])

    def process(self, task: Task) -> list[Task]:
        return [Task([(*task.data, slot)]) for slot in range(4)]


class Pair(Stage):
    """Joins what it is given."""

    def join(self, tasks: list[Task]) -> Task:
        return Task([one for task in tasks for one in task.data])

    def process(self, task: Task) -> Task:
        return task


@pytest.mark.parametrize("engine", ["inline", "processes", "ray", "ray-data"])
def test_law_what_a_group_fans_out_into_is_grouped_again(engine: str, tmp_path: Path) -> None:
    source = StagePlan("numbers", "numbers", bad.Numbers(count=4))
    stages = [
        StagePlan("thrice", "thrice", Thrice(), cpu=0.1),
        StagePlan("widen", "widen", Widen(), cpu=0.1, group=3),
        StagePlan("pair", "pair", Pair(), cpu=0.1, group=2),
        StagePlan("text", "text", bad.TextSink(), cpu=0.1),
    ]
    plan = check_plan("default", "groups", source, stages)

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine))

    assert (outcome.code, outcome.standing.finished) == (ExitCode.COMPLETE, 4)
    texts = sorted(path.read_text() for path in Path(outcome.output).rglob("*.txt"))
    groups = [tuple(range(number)) for number in (1, 2, 3)]
    wanted = [str([(*group, slot), (*group, slot + 1)]) for group in groups for slot in (0, 2)]
    assert texts == sorted(wanted)
