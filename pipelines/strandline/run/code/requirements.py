"""Checks for missing packages before a run starts.

A missing package ends the run, because another attempt would fail in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.plan.packages import advise, list_missing, name_package
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.stage import Params
from strandline.storage.access.protocols import find_lack
from strandline_api.documents.problems import Problem, SpecError


def check_requirements(plan: PipelinePlan) -> None:
    """Check that all packages that the plan's stages and URLs need are installed.

    Raises:
        SpecError: if packages are missing. The error names the packages and a way to install them.
    """
    problems = tuple(find_lacks(plan))
    if problems:
        raise SpecError(problems)


def find_lacks(plan: PipelinePlan) -> Iterator[Problem]:
    """Yield a problem for each missing package that a stage or a URL needs."""
    last = len(plan.stages) - 1
    yield from _find_stage_problems("spec.source", plan.source)
    for index, stage in enumerate(plan.stages):
        at = "spec.sink" if index == last else f"spec.stages[{index}]"
        yield from _find_stage_problems(at, stage)
    own = getattr(plan.stages[last].stage.params, "path", None)
    if plan.output is not None and plan.output != own:
        yield from _find_location_problems("spec.storage.output.url", plan.output)


def _find_stage_problems(at: str, plan: StagePlan) -> Iterator[Problem]:
    for module in list_missing(plan.stage.packages):
        message = f"{plan.use!r} needs the package {name_package(module)}, which is not installed"
        yield Problem(f"{at}.use", message, advise(module))
    params = plan.stage.params
    sources = params.list_places() if isinstance(params, Params) else ()
    for where, url in sources:
        yield from _find_location_problems(f"{at}.with.{where}", url)


def _find_location_problems(at: str, url: str) -> Iterator[Problem]:
    lack = find_lack(url)
    if lack is not None:
        yield Problem(at, lack.message, lack.hint)
