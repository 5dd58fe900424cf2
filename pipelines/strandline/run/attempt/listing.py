"""What a plan's source lists, with what goes wrong put into a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from strandline.engine.call.setup import set_up_stage
from strandline.engine.core.ports import Listing
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stage import Source, SourceStage
from strandline.run.attempt.partitions import group_sources
from strandline_api.documents.problems import Problem, SpecError


class ListingError(StrandlineError):
    """The sources can't be listed; the message says why."""


def open_listing(plan: PipelinePlan) -> Listing:
    """The plan's sources as a stream of batches."""
    return open_source(plan)[1]


def open_source(plan: PipelinePlan) -> tuple[SourceStage, Listing]:
    """The source stage, set up, and what it lists.

    Raises:
        StageSetupError: it can't be set up.
    """
    stage = set_up_stage(plan.source).stage
    assert isinstance(stage, SourceStage)  # checked when the plan was built
    sources = _list_sources(plan.source.name, stage)
    if plan.partitioned_by:
        sources = group_sources(plan, sources, stage.join)
    return stage, Listing(sources, lambda: stage.gap is None)


def _list_sources(name: str, stage: SourceStage) -> Iterator[Source]:
    """The stage's sources, with what goes wrong put into a sentence."""
    is_empty = True
    try:
        for source in stage.list_sources():
            is_empty = False
            yield source
    except OSError as error:
        msg = f"the sources can't be listed: {error}"
        raise ListingError(msg) from error
    if stage.gap is not None and stage.deletes_removed:
        stage.count(f"removed sources keep their output: {stage.gap}")
    if is_empty:
        # An output may be deleted because its source vanished: never because a mount is missing.
        problem = Problem("spec.source", f"{name!r} lists no sources; check its paths")
        raise SpecError((problem,))
