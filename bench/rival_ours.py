"""Our own engine on a case: its stages call the works, and their sources are its items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from case_stages import Listed, Nowhere, Working
from engine_cases import Case
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import Options, run_attempt
from strandline.run.manifest.manifest import read_manifest
from strandline_api.outcome.exit_codes import ExitCode


def run_untracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Without a ledger, as the others."""
    _run(case, folder, Options(None), begin)


def run_tracked(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """With a ledger: it can be killed and resumed."""
    _run(case, folder, Options(folder / "volume"), begin)


def run_inline(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """In one process, one task after the other."""
    _run(case, folder, Options(None, engine="inline"), begin)


def plan_case(case: Case, output: Path) -> PipelinePlan:
    """A case as a pipeline."""
    if case.manifest is not None:
        return replace(read_manifest(case.manifest, case.settings).plan, output=str(output))
    source = Listed()
    source.items = case.items
    stages = [_plan_stage(case, place) for place in range(len(case.works))]
    stages.append(StagePlan("nowhere", "nowhere", Nowhere(), cpu=0.0, max_workers=1))
    plan = check_plan("bench", case.name, StagePlan("listed", "listed", source), stages)
    return replace(plan, output=str(output))


def _plan_stage(case: Case, place: int) -> StagePlan:
    stage = Working(place=place)
    stage.work, stage.is_last = case.works[place], place + 1 == len(case.works)
    size = case.sizes[place]
    return StagePlan(
        f"stage-{place}",
        "working",
        stage,
        cpu=case.cpu,
        min_workers=size if case.is_sized else 1,
        max_workers=size if case.is_sized else None,
        batch_size=case.batch,
    )


def _run(case: Case, folder: Path, options: Options, begin: Callable[[], None]) -> None:
    plan = plan_case(case, folder / "output")
    begin()
    outcome = run_attempt(plan, options)
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
