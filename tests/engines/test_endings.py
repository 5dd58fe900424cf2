"""On all engines, errors that end an attempt reach the caller unchanged, with the stage's name."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import engine_stages
import odd_stages
from conformance import ConformanceRuns, Workspace, every, is_pooled, list_engines
from conformance_scenarios import plan_numbers, plan_text_sink
from strandline.engine.call.setup import PackageMissingError, StageSetupError
from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.core import call_size
from strandline.engine.core.pools import PoolBrokenError
from strandline.ledger.errors import DuplicateKeyError
from strandline.plan.errors import code_of
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline_api.outcome.exit_codes import ExitCode
from worker_stages import NodeReady

pytestmark = pytest.mark.first(reason="starts one Ray pool for each ending")


class Case(NamedTuple):
    """A plan that ends its attempt.

    Attributes:
        make_plan: function that makes the plan in an empty folder.
        error: class of the error.
        message: pattern of its message.
        is_lasting: True if another attempt would end in the same way.
    """

    make_plan: Callable[[Path], PipelinePlan]
    error: type[Exception]
    message: str
    is_lasting: bool = False


def plan_stage(stage: Stage, count: int = 10, batch_size: int = 1) -> PipelinePlan:
    """Return a plan for numbers that pass one stage."""
    plan = StagePlan("bad", "bad", stage, cpu=0.1, batch_size=batch_size)
    return check_plan("default", "endings", plan_numbers(count), [plan, plan_text_sink()])


def plan_twice_listed(_: Path) -> PipelinePlan:
    """Return a plan whose source lists each key twice."""
    numbers = engine_stages.Numbers(count=3, repeat=2)
    source = StagePlan("numbers", "numbers", numbers)
    return check_plan("default", "endings", source, [plan_text_sink()])


CASES = {
    "setup": Case(
        lambda _: plan_stage(engine_stages.Unprepared()),
        StageSetupError,
        "'bad' can't be set up: FileNotFoundError: no model",
        is_lasting=True,
    ),
    "node": Case(
        lambda folder: plan_stage(NodeReady(folder=str(folder), what="raise")),
        StageSetupError,
        f"'bad' can't set up node '{socket.gethostname()}': FileNotFoundError: no weights",
        is_lasting=True,
    ),
    "package": Case(
        lambda _: plan_stage(engine_stages.Unpacked()),
        PackageMissingError,
        "'bad' can't be set up: it needs the package a_package_that_nobody_has, which is not ins",
    ),
    "shape": Case(
        lambda _: plan_stage(engine_stages.ShortBatch(), batch_size=4),
        ShapeError,
        "'bad' returned 3 results for a batch of 4 tasks",
        is_lasting=True,
    ),
    "keys": Case(plan_twice_listed, DuplicateKeyError, "'number-0' is listed twice: as item 4 and"),
}
# On Ray, errors of a worker's setup and of its calls reach the driver in different ways. The first
# tier runs one case of each.
FIRST_TIER = {"setup", "shape"}


def enter(runs: ConformanceRuns, engine: str) -> Workspace:
    return runs.enter("endings", engine)


@pytest.mark.parametrize("name", sorted(FIRST_TIER))
@every
def test_an_error_of_a_worker_ends_the_attempt(
    engine: str, name: str, runs: ConformanceRuns, tmp_path: Path
) -> None:
    check_ending(CASES[name], enter(runs, engine), tmp_path)


@pytest.mark.parametrize("name", sorted(CASES.keys() - FIRST_TIER))
@list_engines(more=True)
def test_other_errors_end_the_attempt_in_the_same_way(
    engine: str, name: str, runs: ConformanceRuns, tmp_path: Path
) -> None:
    check_ending(CASES[name], enter(runs, engine), tmp_path)


def check_ending(case: Case, workspace: Workspace, folder: Path) -> None:
    with pytest.raises(case.error, match=case.message) as caught:
        workspace.run(case.make_plan(folder), folder / "volume")
    assert not case.is_lasting or getattr(caught.value, "is_lasting", False)
    if case.error is PackageMissingError:
        assert code_of(caught.value) is ExitCode.BAD_SPEC


# tests/runtime/test_chains_on_ray.py tests the same for a stage in the middle of a chain on Ray.
@list_engines(is_pooled, more=True)
def test_a_stage_that_ends_every_worker_ends_the_attempt(
    engine: str, runs: ConformanceRuns, tmp_path: Path
) -> None:
    plan = plan_stage(engine_stages.Deadly())
    with pytest.raises(PoolBrokenError, match=r"stage 'bad( to text)?' lost \d workers in a row"):
        enter(runs, engine).run(plan, tmp_path)


# For all engines, core/flow.py in the driver counts failures, so Ray is in the second tier.
@list_engines(more=True)
def test_failures_of_all_first_tasks_end_the_attempt_and_the_next_resumes(
    engine: str, runs: ConformanceRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_size, "CALL_TASKS", 1)  # a larger call would include the good sources
    workspace, plan = enter(runs, engine), plan_stage(odd_stages.Bad(), count=80)
    with pytest.raises(StageBrokenError, match="'bad' failed each of its first"):
        workspace.run(plan, tmp_path)
    result = workspace.run(plan, tmp_path).result
    assert result.code is ExitCode.SOURCES_FAILED
    assert (result.standing.finished, result.standing.failed) == (20, 60)
