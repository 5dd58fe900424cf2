"""Determines which pipelines a run waits for, and which inputs its pods read from other pipelines.

The first attempt of a run waits until all pipelines in `after`, and all inputs, have succeeded.
Retries do not wait, and read the same inputs as the first attempt. This module must not depend on
how other pipelines were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import AttemptSpec
from strandline_api.spec.predecessors import Reference, find_circle
from strandline_api.status.enums import Trigger
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.inputs import InputRecord
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.obstacles.namesakes import may_launch
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Pass
from strandline_operator.model.view import AttemptObject, PipelineView
from strandline_operator.render.inputs import locate_input, record_input
from strandline_operator.render.order import Input

# Seconds within which all objects of a Git commit are applied, one after another.
_COMMIT_SECONDS = 60.0


def needs_others(pipeline: PipelineView, current: AttemptObject | None) -> bool:
    """Return True if this pass may start an attempt that depends on other pipelines."""
    spec = pipeline.spec
    return spec is not None and bool(spec.predecessors) and may_launch(pipeline, current)


def is_beginning(pipeline: PipelineView) -> bool:
    """Return True if the next attempt is the first of its run, and was not started manually."""
    spec, status = pipeline.spec, pipeline.status
    if spec is None:
        return False
    return status.answered_run != spec.run_id or _is_first_due(status)


def _is_first_due(status: PipelineStatus) -> bool:
    # A manual attempt has another trigger, and does not wait for other pipelines.
    return status.next_attempt_time is not None and status.retry_trigger is Trigger.RUN


def find_predecessors(facts: Pass) -> Block | None:
    """Report pipelines that must succeed before the run starts."""
    view, others = facts.view, facts.view.others
    # If predecessors were not read, `dispatch` creates no attempt, so there is nothing to report.
    if others is None or not is_beginning(view.pipeline):
        return None
    name = view.pipeline.meta.name
    before = {
        other: tuple(predecessor.spec.predecessors)
        for other, predecessor in others.items()
        if predecessor is not None and predecessor.spec is not None
    }
    circle = find_circle(name, before | {name: tuple(facts.spec.predecessors)})
    # Pipelines in a cycle would wait for each other forever.
    if circle:
        return Block(Reason.COMES_AFTER_ITSELF, " comes after ".join(circle))
    waits = (
        _describe_wait(facts, other, run, others.get(other))
        for other, run in facts.spec.predecessors.items()
    )
    waiting = [wait for wait in waits if wait] or list(_list_unchanged(facts))
    return Block(Reason.WAITS_FOR_PIPELINES, "; ".join(waiting)) if waiting else None


def find_commit_end(facts: Pass) -> float | None:
    """Return until when this commit's `runId` may still reach other pipelines; otherwise, None."""
    spec, status = facts.spec, facts.view.pipeline.status
    # This pass starts the run, so the waiting period starts now.
    if status.answered_run != spec.run_id:
        return facts.now + _COMMIT_SECONDS
    start_time = status.run_start_time
    # A scheduled run does not result from a commit, so do not wait.
    if start_time is None or status.requested_run or not _is_first_due(status):
        return None
    return start_time + _COMMIT_SECONDS


def _list_unchanged(facts: Pass) -> Iterator[str]:
    """Yield inputs that the previous run already read, while newer inputs may still arrive."""
    until = find_commit_end(facts)
    if until is None or facts.now >= until:
        return
    # Use the spec of the newest attempt, because the status may already describe the next attempt.
    records = facts.newest.spec.inputs if facts.newest else ()
    former = {record.pipeline: record for record in records}
    # Skip inputs from a named run: the user has chosen that run.
    latest = [name for name, run in facts.spec.predecessors.items() if run is None]
    for record in _record_others(facts, latest):
        former_record = former.get(record.pipeline)
        if former_record is not None and not record.is_newer(former_record):
            time = format_time(round(until))[11:19]
            run = former_record.run
            yield f"{record.pipeline} (run {run!r} was already read; it is read again at {time})"


def record_inputs(facts: Pass, status: PipelineStatus) -> tuple[InputRecord, ...]:
    """Return the inputs of a new attempt: those that its run started with, and new inputs."""
    names = sorted(facts.spec.predecessors)
    records = _find_kept(facts, status)
    by_pipeline = {record.pipeline: record for record in _record_others(facts, names)} | records
    return tuple(by_pipeline[name] for name in names if name in by_pipeline)


def _find_kept(facts: Pass, status: PipelineStatus) -> dict[str, InputRecord]:
    """Return the inputs that the current run started with, or {} before its first launch."""
    newest = facts.newest
    # A new run reads its inputs again. Otherwise, it would process old data.
    if newest is None or newest.spec.run != status.run or _is_first_due(status):
        return {}
    # Until the first attempt of a run has ended, the run uses the newest inputs.
    if newest.spec.trigger is Trigger.RUN and not newest.status.is_frozen:
        return {}
    return {record.pipeline: record for record in status.inputs}


def _record_others(facts: Pass, names: Iterable[str]) -> list[InputRecord]:
    pipelines = map((facts.view.others or {}).get, names)
    return [record_input(other, facts.view.defaults) for other in pipelines if other is not None]


def find_absent_inputs(facts: Pass) -> Block | None:
    """Report inputs from other pipelines that this pipeline's pods can't reach."""
    others = facts.view.others
    if others is None:
        return None
    records = _find_kept(facts, facts.view.pipeline.status)
    for _, reference in facts.spec.references:
        name = reference.pipeline
        # The run has already used this input, so later changes of the predecessor do not matter.
        if name in records and (records[name].output or reference.artifact):
            continue
        other = others.get(name)
        if other is None or other.spec is None:
            wait = "is invalid" if other is not None else "does not exist"
            return Block(Reason.WAITS_FOR_PIPELINES, f"{name} ({wait})")
        # Artifacts are always on a shared claim, but outputs may be local to the other pipeline's
        # pods.
        if not (reference.artifact or record_input(other, facts.view.defaults).output):
            detail = f"{name} writes to the folder {other.spec.output_location} of its own pods"
            return Block(Reason.INPUT_NOT_SHARED, detail)
    return None


def list_inputs(facts: Pass, attempt: AttemptSpec) -> dict[Reference, Input]:
    """Return the input for each reference, as the pods of an attempt see it."""
    by_pipeline = {record.pipeline: record for record in attempt.inputs}
    # Read inputs now for attempts of earlier operators, which did not record inputs.
    absent = [
        each.pipeline for _, each in facts.spec.references if each.pipeline not in by_pipeline
    ]
    by_pipeline |= {record.pipeline: record for record in _record_others(facts, absent)}
    namespace = facts.view.pipeline.meta.namespace
    return {
        reference: locate_input(reference, by_pipeline[reference.pipeline], namespace)
        for _, reference in facts.spec.references
        if reference.pipeline in by_pipeline
    }


def _describe_wait(facts: Pass, name: str, run: str | None, other: PipelineView | None) -> str:
    """Describe what a predecessor still has to do, or return an empty string."""
    if other is None:
        return f"{name} (does not exist)"
    if other.meta.is_deleting:
        return f"{name} (is being deleted)"
    if run is None:
        wait = _find_next_run(facts, other) or _find_end(other)
    elif other.status.run == run:
        wait = _find_end(other)
    else:
        wait = _find_past(run, other.status)
    return f"{name} ({wait})" if wait else ""


def _find_next_run(facts: Pass, other: PipelineView) -> str:
    """Describe why another run is about to replace the latest run, or return an empty string."""
    status = other.status
    # The operator has not processed the latest edit, which may start another run.
    if status.observed_generation != other.meta.generation:
        return "its next run has not started"
    requests, answered = (
        HandledTokens.from_annotations(other.meta.annotations),
        status.handled or HandledTokens(),
    )
    retries = (requests.retry, answered.retry), (requests.repair, answered.repair)
    # An unhandled request will start another attempt.
    if any(token and token != handled for token, handled in retries):
        return "an attempt is requested"
    due = status.schedule.next_time if status.schedule else None
    # If both pipelines are due at the same time, the operator may not have started the other run
    # yet.
    return "its next run is due" if due is not None and due <= facts.now else ""


def _find_past(run: str, status: PipelineStatus) -> str:
    past = [attempt for attempt in status.attempts if attempt.run == run]
    # The history of attempts is limited, so the status also lists completed runs.
    if run in status.completed_runs or any(attempt.cause is None for attempt in past):
        return ""
    return f"run {run!r} failed" if past else f"run {run!r} has not started"


def _find_end(other: PipelineView) -> str:
    status = other.status
    summary = status.find_condition(ConditionType.SUCCEEDED)
    if not status.run:
        return "its first run has not started"
    if summary is None or summary.status == "Unknown":
        return _describe_open_run(status)
    return f"run {status.run!r} failed" if summary.status == "False" else ""


def _describe_open_run(status: PipelineStatus) -> str:
    """Describe the state of a run that has no result yet."""
    has_attempt = status.attempt > (status.retries.through if status.retries else 0)
    has_started = has_attempt or any(past.run == status.run for past in status.attempts)
    is_suspended = status.find_condition(ConditionType.SUSPENDED) is not None
    if is_suspended:
        state = "has not finished" if has_started else "has not started"
        return f"suspended; run {status.run!r} {state}"
    return f"run {status.run!r} {'is in progress' if has_started else 'has not started'}"
