"""Sorts pipelines into an order in which they can run, or explains why there is no such order.

The caller passes a function that looks up ended runs, so this module needs no access to runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from strandline_api.documents.problems import Problem, SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.spec.predecessors import find_circle

# Function that takes a namespace, a pipeline, and a run, or None for the latest run. It returns the
# reason why the run has not completed, an empty string if the reason is unknown, or None if the run
# has completed.
FindGap = Callable[[str, str, str | None], str | None]


def order_pipelines(
    pipelines: Sequence[CurationPipeline], find_gap: FindGap
) -> tuple[CurationPipeline, ...]:
    """Return the pipelines, each after its predecessors, and otherwise in the given order.

    Args:
        pipelines: all pipelines to run.
        find_gap: called for predecessors that are not among the pipelines.

    Raises:
        SpecError: if a name is duplicate, missing, or in another namespace, or pipelines wait for
            each other.
    """
    problems = tuple(_find_problems(pipelines, find_gap))
    if problems:
        raise SpecError(problems)
    ordered: list[CurationPipeline] = []
    left = list(pipelines)
    while left:
        waited = {_identify(pipeline) for pipeline in left}
        # At least one pipeline is always ready, because cycles were rejected above.
        ready = next(
            pipeline for pipeline in left if not waited & set(_list_predecessors(pipeline))
        )
        left.remove(ready)
        ordered.append(ready)
    return tuple(ordered)


Identity = tuple[str, str]


def _identify(pipeline: CurationPipeline) -> Identity:
    return pipeline.metadata.namespace, pipeline.metadata.name


def _list_predecessors(pipeline: CurationPipeline) -> list[Identity]:
    namespace = pipeline.metadata.namespace
    return [(namespace, name) for name in pipeline.spec.predecessors]


def _find_problems(pipelines: Sequence[CurationPipeline], find_gap: FindGap) -> Iterator[Problem]:
    counted = Counter(map(_identify, pipelines))
    for namespace, name in (identity for identity, count in counted.items() if count > 1):
        yield Problem("", f"pipeline {name!r} in namespace {namespace!r} is listed twice")
    for pipeline in pipelines:
        yield from _find_absent(pipeline, pipelines, find_gap)
    yield from _find_circles(pipelines)


def _find_absent(
    pipeline: CurationPipeline,
    pipelines: Sequence[CurationPipeline],
    find_gap: FindGap,
) -> Iterator[Problem]:
    """Yield a problem for each predecessor that can't complete before the pipeline."""
    given = {_identify(each): each for each in pipelines}
    namespace, name = _identify(pipeline)
    for other, run in pipeline.spec.predecessors.items():
        known = given.get((namespace, other))
        if known is not None and run in {None, known.spec.run_id}:
            continue
        elsewhere = None if known else next((space for space, it in given if it == other), None)
        if elsewhere is not None:
            message = f"comes after {other!r}, which is in the namespace {elsewhere!r}"
            hint = f"both must be in the same namespace, such as {namespace!r}"
            yield Problem("", f"pipeline {name!r} {message}", hint)
            continue
        gap = find_gap(namespace, other, run)
        if gap is None:
            continue
        if known is not None:
            message = f"comes after run {run!r} of {other!r}, whose runId is {known.spec.run_id!r}"
            hint = ""
        else:
            message = f"comes after {other!r}, which is not among the files and has not completed"
            message += f": {gap}" if gap else ""
            hint = "pass its file too"
        yield Problem("", f"pipeline {name!r} {message}", hint)


def _find_circles(pipelines: Sequence[CurationPipeline]) -> Iterator[Problem]:
    """Yield a problem for one cycle per namespace. After a fix, the next check finds others."""
    for namespace in dict.fromkeys(pipeline.metadata.namespace for pipeline in pipelines):
        before = {
            pipeline.metadata.name: pipeline.spec.predecessors
            for pipeline in pipelines
            if pipeline.metadata.namespace == namespace
        }
        circle = next(filter(None, (find_circle(name, before) for name in before)), ())
        if circle:
            way = " comes after ".join(repr(name) for name in circle)
            yield Problem("", f"{way}: none of these pipelines can start")
