"""What the pipeline's status says of it all: phase, state, progress and conditions."""

from __future__ import annotations

from strandline_api.documents.stored import describe_unknown
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.status.enums import AttemptPhase, PipelinePhase
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_api.times import spell_time
from strandline_operator.decide.attempts.stop import find_losses
from strandline_operator.decide.conditions import Truth, drop_conditions, set_condition
from strandline_operator.decide.evidence import read_progress
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.decide.scene import Scene
from strandline_operator.decide.storage import Storage
from strandline_operator.model.view import AttemptView

# Nearly every run is so for some seconds; where it stays so, the attempt's end tells of it.
_USUAL = frozenset({Reason.CLAIM_PENDING, Reason.UNSCHEDULABLE})


def tell_losses(draft: Draft, scene: Scene, status: AttemptStatus) -> None:
    """Tell of the workers that an attempt has lost since, and goes on without."""
    lost_before = scene.attempt.status.incidents
    if status.incidents <= lost_before:
        return
    for loss in find_losses(scene)[lost_before - status.incidents :]:
        draft.count("workers_lost", loss.cause.value)
        message = f"{scene.attempt.meta.name} goes on without a worker. {loss.message}"
        draft.tell(EventReason.WORKER_LOST, message, is_warning=True)


def tell_changes(draft: Draft, block: Block | None) -> None:
    """Tell that the pipeline is held back from now on, goes on, or waits for somebody."""
    before, after = draft.view.pipeline.status, draft.status
    summary = after.find_condition(ConditionType.SUCCEEDED)
    was_held, is_held = (
        one.find_condition(ConditionType.SUSPENDED) is not None for one in (before, after)
    )
    if is_held and not was_held:
        draft.tell(EventReason.SUSPENDED, EventReason.SUSPENDED.meaning)
    if was_held and not is_held and summary is not None and summary.status == "Unknown":
        draft.tell(EventReason.RESUMED, EventReason.RESUMED.meaning)
    if block is None or block.reason in _USUAL:
        return
    if summary is None or summary.reason != block.reason:
        return
    former = before.find_condition(ConditionType.SUCCEEDED)
    if former is None or former.reason != summary.reason:
        draft.tell(EventReason.BLOCKED, block.message, is_warning=True)


_ONLY_WHEN_TRUE = (
    ConditionType.STALLED,
    ConditionType.RECONCILING,
    ConditionType.SUSPENDED,
)
_REASONS = {
    AttemptPhase.PENDING: Reason.PENDING,
    AttemptPhase.QUEUED: Reason.QUEUED,
    AttemptPhase.STARTING: Reason.STARTING,
    AttemptPhase.RUNNING: Reason.RUNNING,
    AttemptPhase.DRAINING: Reason.DRAINING,
    AttemptPhase.TEARING_DOWN: Reason.TEARING_DOWN,
}


def report(
    draft: Draft,
    spec: PipelineSpec,
    current: AttemptView | None,
    storage: Storage,
    block: Block | None,
) -> None:
    """Bring the pipeline's status up to date with everything that was decided."""
    active = current if current and not draft.status_of(current).is_frozen else None
    _copy_progress(draft, current)
    phase, truth, reason, message = _sum_up(draft, spec, active, block)
    meta = draft.view.pipeline.meta
    draft.update(
        observed_generation=meta.generation,
        phase=phase,
        volume_claim=spec.storage.ledger.claim_name
        or (draft.view.claim.meta.name if draft.view.claim else ""),
    )
    _set(draft, ConditionType.SUCCEEDED, truth, reason, message)
    _set(draft, ConditionType.STORAGE_READY, storage.truth, storage.reason, storage.message)
    has_run = _has_run(draft, active)
    if truth == "False":
        _show_only(draft, ConditionType.STALLED, reason, message)
    elif truth == "Unknown" and spec.suspend:
        _show_only(draft, ConditionType.SUSPENDED, Reason.SUSPENDED, Reason.SUSPENDED.explain())
    elif truth == "Unknown" and not has_run:
        _show_only(draft, ConditionType.RECONCILING, reason, message)
    else:
        _show_only(draft)
    _describe_edit(draft, active, is_over=truth != "Unknown")
    _name_unknown(draft)


def _has_run(draft: Draft, active: AttemptView | None) -> bool:
    """Whether an attempt of this run has had its driver running, or has ended."""
    if any(one.run == draft.status.run for one in draft.status.attempts):
        return True
    return active is not None and draft.status_of(active).running_time is not None


def report_invalid(draft: Draft, *, is_active: bool) -> None:
    """Say what is wrong with the spec; an attempt under way still goes on."""
    message = "; ".join(draft.view.pipeline.problems) or "the spec is invalid"
    draft.update(observed_generation=draft.view.pipeline.meta.generation, state=message)
    if not is_active:
        draft.update(phase=PipelinePhase.FAILED)
    _show_only(draft, ConditionType.STALLED, "InvalidSpec", message)
    _set(draft, ConditionType.SUCCEEDED, "Unknown", "InvalidSpec", message)


def report_unread(draft: Draft, block: Block) -> None:
    """Say that too little could be read to decide anything; a run that is over stays over."""
    pipeline = draft.view.pipeline
    summary = draft.status.find_condition(ConditionType.SUCCEEDED)
    if summary is not None and summary.status != "Unknown":
        return
    if not pipeline.has_status:
        draft.update(observed_generation=pipeline.meta.generation)
        _show_only(draft, ConditionType.RECONCILING, block.reason, block.message)
    draft.update(state=block.message)
    _set(draft, ConditionType.SUCCEEDED, "Unknown", block.reason, block.message)


def report_deletion(draft: Draft, waits_for: str) -> None:
    """Say what the deletion waits for."""
    message = Reason.DELETING.explain(waits_for)
    generation = draft.view.pipeline.meta.generation
    draft.update(observed_generation=generation, phase=PipelinePhase.DELETING, state=message)
    _set(draft, ConditionType.SUCCEEDED, "Unknown", Reason.DELETING, message)


def _sum_up(
    draft: Draft, spec: PipelineSpec, active: AttemptView | None, block: Block | None
) -> tuple[PipelinePhase, Truth, str, str]:
    """Phase, and truth, reason and message of `Succeeded`."""
    status = draft.status
    if active is not None:
        attempt = draft.status_of(active)
        phase = PipelinePhase.RUNNING
        reason: str = block.reason if block else _REASONS.get(attempt.phase, Reason.RUNNING)
        state = f"attempt {active.spec.number}: {attempt.phase.value}"
        if block is None:
            draft.update(state=state)
        message = block.message if block else f"{state}; {attempt.message}".rstrip("; ")
        if attempt.phase in {AttemptPhase.PENDING, AttemptPhase.QUEUED, AttemptPhase.STARTING}:
            phase = PipelinePhase.PENDING
        return phase, "Unknown", reason, message
    if status.next_attempt_time is not None:
        return _sum_up_wait(draft, spec, block)
    if status.retry_cause is not None:
        message = status.state or f"the last attempt ended with {status.retry_cause}"
        return PipelinePhase.FAILED, "False", status.retry_cause.value, message
    return PipelinePhase.SUCCEEDED, "True", Reason.COMPLETED, _describe_success(draft)


def _sum_up_wait(
    draft: Draft, spec: PipelineSpec, block: Block | None
) -> tuple[PipelinePhase, Truth, str, str]:
    """The same where an attempt is due, now or later."""
    status = draft.status
    if spec.suspend:
        draft.update(state=Reason.SUSPENDED.explain())
        return PipelinePhase.SUSPENDED, "Unknown", Reason.SUSPENDED, Reason.SUSPENDED.explain()
    if block is not None:
        return PipelinePhase.PENDING, "Unknown", block.reason, block.message
    due = status.next_attempt_time or 0.0
    if not draft.view.turn.is_open and due <= draft.now:
        return _report_held(draft)
    if not status.attempts:
        return PipelinePhase.PENDING, "Unknown", Reason.PENDING, Reason.PENDING.meaning
    waits = Reason.WAITING_TO_RETRY
    if not status.state or status.state == Reason.SUSPENDED.explain():
        draft.update(state=f"next attempt at {spell_time(due)}")
    return PipelinePhase.WAITING, "Unknown", waits, draft.status.state


def _report_held(draft: Draft) -> tuple[PipelinePhase, Truth, str, str]:
    """The same where the limit on attempts holds it back: for a while, or as long as it is 0."""
    is_stopped = draft.view.turn.opens_at is None
    held = Reason.DISPATCH_STOPPED if is_stopped else Reason.RETRIES_HELD_BACK
    draft.update(state=held.explain())
    return PipelinePhase.WAITING, "Unknown", held, held.explain()


def _describe_success(draft: Draft) -> str:
    progress = draft.status.progress
    done = f" ({progress.text})" if progress else ""
    message = f"run {draft.status.run} is complete{done}"
    draft.update(state=message)
    return message


def _copy_progress(draft: Draft, current: AttemptView | None) -> None:
    """Progress of the attempt; written no more often than the interval allows, but at its end."""
    if current is None:
        return
    attempt = draft.status_of(current)
    progress = read_progress(attempt, attempt.end_time) or attempt.progress
    if progress is not None and not _is_behind(draft, progress):
        draft.update(progress=progress)
    if attempt.latest:
        draft.update(latest=attempt.latest)


def _is_behind(draft: Draft, progress: Progress) -> bool:
    """Whether an attempt that still lists its sources has not come to all that are finished yet."""
    known = draft.status.progress
    return known is not None and progress.total is None and progress.finished < known.finished


def _describe_edit(draft: Draft, active: AttemptView | None, *, is_over: bool) -> None:
    """Whether what runs is what the spec says; only what somebody edited is told of."""
    view = draft.view.pipeline
    seen = view.status.observed_generation
    is_edited = view.has_status and seen is not None and seen != view.meta.generation
    old = draft.status.find_condition(ConditionType.SPEC_APPLIED)
    if active is None and not is_over:
        _set(draft, ConditionType.SPEC_APPLIED, "True", Reason.APPLIED, Reason.APPLIED.meaning)
    elif is_edited or (is_over and old and old.reason == Reason.WAITS_FOR_NEXT_ATTEMPT):
        reason = Reason.WAITS_FOR_NEXT_RUN if is_over else Reason.WAITS_FOR_NEXT_ATTEMPT
        _set(draft, ConditionType.SPEC_APPLIED, "False", reason, reason.explain())
    elif old is None:
        _set(draft, ConditionType.SPEC_APPLIED, "True", Reason.APPLIED, Reason.APPLIED.meaning)


def _name_unknown(draft: Draft) -> None:
    """Tell which fields of the spec are ignored: its definition is newer than this operator."""
    unknown, told = draft.view.pipeline.unknown, ConditionType.FIELDS_IGNORED
    if unknown:
        reason = Reason.OPERATOR_IS_OLDER
        message = reason.explain(describe_unknown("it", unknown))
        _set(draft, told, "True", reason, message)
    else:
        draft.update(conditions=drop_conditions(draft.status.conditions, [told]))


def _set(draft: Draft, type_: ConditionType, truth: Truth, reason: str, message: str) -> None:
    conditions = draft.status.conditions
    draft.update(
        conditions=set_condition(conditions, type_, truth, str(reason), message, draft.now)
    )


def _show_only(
    draft: Draft, shown: ConditionType | None = None, reason: str = "", message: str = ""
) -> None:
    """Of the conditions that are there only when they are true, have this one or none."""
    # Such a condition is removed, not set to False: tools read its mere presence. One that stays
    # keeps its time, or each pass would write the status and so bring about the next.
    untrue = [one for one in _ONLY_WHEN_TRUE if one is not shown]
    draft.update(conditions=drop_conditions(draft.status.conditions, untrue))
    if shown is not None:
        _set(draft, shown, "True", reason, message)
