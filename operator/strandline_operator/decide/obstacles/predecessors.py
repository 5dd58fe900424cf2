"""Other pipelines that a run waits for, and what pods of this one see of what they have made.

The first attempt of a run waits until all that `after` names, and all that is read, have succeeded;
retries don't. This room must not know how other pipelines were read.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline_api.names import name_claim
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.pod_paths import INPUTS
from strandline_api.spec.predecessors import Reference, find_circle
from strandline_api.status.enums import Trigger
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.obstacles.namesakes import may_launch
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass
from strandline_operator.model.view import AttemptObject, PipelineView
from strandline_operator.render.defaults import fill_in
from strandline_operator.render.order import Input


def needs_others(pipeline: PipelineView, current: AttemptObject | None) -> bool:
    """Return whether this pass may begin something that other pipelines have a say in."""
    spec = pipeline.spec
    return spec is not None and bool(spec.predecessors) and may_launch(pipeline, current)


def is_beginning(pipeline: PipelineView) -> bool:
    """Return whether the attempt that may be made is the first of its run, by nobody's hand."""
    spec, status = pipeline.spec, pipeline.status
    if spec is None:
        return False
    if status.answered_run != spec.run_id:
        return True
    # Who asks for an attempt by hand gets one of another kind, which waits for nobody.
    return status.next_attempt_time is not None and status.retry_trigger is Trigger.RUN


def find_predecessors(given: Pass) -> Block | None:
    """Find pipelines that have to succeed before the run begins."""
    view, others = given.view, given.view.others
    # Nothing is begun where they were not read; `dispatch` sees to that.
    if others is None or not is_beginning(view.pipeline):
        return None
    name = view.pipeline.meta.name
    before = {
        other: tuple(seen.spec.predecessors)
        for other, seen in others.items()
        if seen is not None and seen.spec is not None
    }
    circle = find_circle(name, before | {name: tuple(given.spec.predecessors)})
    if circle:
        return Block(Reason.COMES_AFTER_ITSELF, " comes after ".join(circle))
    waits = (
        _describe_wait(other, run, others.get(other))
        for other, run in given.spec.predecessors.items()
    )
    waiting = [wait for wait in waits if wait]
    return Block(Reason.WAITS_FOR_PIPELINES, "; ".join(waiting)) if waiting else None


def find_absent_inputs(given: Pass) -> Block | None:
    """Find what is read of other pipelines and can't be reached from pods of this one."""
    others = given.view.others
    if others is None:
        return None
    for _, reference in given.spec.references:
        other = others.get(reference.pipeline)
        if other is None or other.spec is None:
            wait = "is invalid" if other is not None else "does not exist"
            return Block(Reason.WAITS_FOR_PIPELINES, f"{reference.pipeline}, which {wait}")
        filled = fill_in(other, given.view.defaults)
        location = None if filled is None else filled.output_location
        is_own = location is not None and not _is_shared(location)
        if is_own and not reference.artifact:
            detail = f"{reference.pipeline} writes to the folder {location} of its own pods"
            return Block(Reason.INPUT_NOT_SHARED, detail)
    return None


def list_inputs(given: Pass) -> dict[Reference, Input]:
    """Return what each reference stands for in pods of this pipeline."""
    others = given.view.others or {}
    return {
        reference: _locate(reference, other, given.view.defaults)
        for _, reference in given.spec.references
        if (other := others.get(reference.pipeline)) is not None
    }


def _locate(reference: Reference, other: PipelineView, defaults: SpecDefaults) -> Input:
    spec, meta = fill_in(other, defaults), other.meta
    assert spec is not None  # one that is invalid is an obstacle
    if not reference.artifact and spec.output_location is not None:
        return Input(spec.output_location)
    ledger = spec.storage.ledger.claim_name or name_claim(meta.name)
    claim = ledger if reference.artifact else spec.storage.output.claim_name or ledger
    folder = f"{INPUTS}/{claim}/{meta.namespace}/{meta.name}"
    if reference.artifact:
        return Input(f"{folder}/latest/artifacts", claim)
    # A claim for outputs holds nothing else, so they lie at the top of the pipeline's folder.
    return Input(folder if claim != ledger else f"{folder}/output", claim)


def _is_shared(location: str) -> bool:
    """Return whether a place means the same in all pods, as far as its name tells."""
    return "://" in location or location.startswith("/")


def _describe_wait(name: str, run: str | None, other: PipelineView | None) -> str:
    """Describe what is still to come of a pipeline; empty where nothing is."""
    if other is None:
        return f"{name}, which does not exist"
    if other.meta.is_deleting:
        return f"{name}, which is being deleted"
    return "".join(_find_wait(name, run, other))


def _find_wait(name: str, run: str | None, other: PipelineView) -> Iterator[str]:
    status = other.status
    is_seen = status.observed_generation == other.meta.generation
    if run is None:
        # An edit that nobody has looked at yet may begin another run.
        if not is_seen:
            yield f"{name}, whose next run has not begun"
            return
    elif status.run != run:
        if not any(past.run == run and past.cause is None for past in status.attempts):
            yield f"{name}, whose run {run} has not begun"
        return
    summary = status.find_condition(ConditionType.SUCCEEDED)
    if summary is None or summary.status == "Unknown":
        yield f"{name}, whose run {status.run} goes on"
    elif summary.status == "False":
        yield f"{name}, whose run {status.run} has failed"
