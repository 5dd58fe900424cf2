"""Runs a case on Strandline's engine: stages call the work functions, and sources are the items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.engines.cases import Case
from strandline_bench.engines.work.stages import Listed, Nowhere, Spreading, Working
from strandline_bench.engines.work.works import Spread


def run_untracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case without a ledger, as the other engines do."""
    _run(case, folder, None, "ray", begin)


def run_tracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case with a ledger, so that the run can be killed and resumed."""
    _run(case, folder, folder / "volume", "ray", begin)


def run_apart(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case without a ledger, with separate workers for each stage."""
    _run(case, folder, None, "ray", begin, is_apart=True)


def run_forked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case with forked workers."""
    _run(case, folder, None, "processes", begin)


def run_inline(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case in one process, task by task."""
    _run(case, folder, None, "inline", begin)


def plan_case(case: Case, output: Path, *, is_apart: bool = False) -> PipelinePlan:
    """Return a case as a pipeline.

    Args:
        is_apart: whether each stage has its own workers, with the case's sizes. Otherwise the
            stages share workers, and the engine chooses their number.
    """
    plan = _plan_case(case, output, is_sized=is_apart and case.is_sized)
    stages = tuple(replace(stage, isolate=is_apart or stage.isolate) for stage in plan.stages)
    return replace(plan, stages=stages)


def _plan_case(case: Case, output: Path, *, is_sized: bool) -> PipelinePlan:
    if case.manifest is not None:
        return replace(read_manifest(case.manifest, case.settings).plan, output=str(output))
    source = Listed()
    source.items = case.items
    stages = [_plan_stage(case, index, is_sized=is_sized) for index in range(len(case.works))]
    stages.append(StagePlan("nowhere", "nowhere", Nowhere(), cpu=0.0, max_workers=1))
    plan = check_plan("bench", case.name, StagePlan("listed", "listed", source), stages)
    return replace(plan, output=str(output))


def _plan_stage(case: Case, index: int, *, is_sized: bool) -> StagePlan:
    size, name = case.sizes[index], f"stage-{index}"
    if isinstance(case.works[index], Spread):
        spreading = Spreading()
        spreading.work = case.works[index]
        return StagePlan(name, "spreading", spreading, cpu=case.cpu)
    stage = Working(index=index)
    stage.work, stage.is_last = case.works[index], index + 1 == len(case.works)
    return StagePlan(
        name,
        "working",
        stage,
        cpu=case.cpu,
        min_workers=size if is_sized else 1,
        max_workers=size if is_sized else None,
        batch_size=case.batch,
    )


def _run(
    case: Case,
    folder: Path,
    volume: Path | None,
    engine: str,
    begin: Callable[[], None],
    *,
    is_apart: bool = False,
) -> None:
    plan = plan_case(case, folder / "output", is_apart=is_apart)
    config = AttemptConfig(plan, volume, engine)
    begin()
    outcome = run_attempt(config)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
