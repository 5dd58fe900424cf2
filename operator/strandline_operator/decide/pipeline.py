"""One pass over a pipeline: what its attempts come to, whether another follows, what is reported.

Everything that must survive the operator is in the statuses: an attempt that is due is a time in
the status before it is an object, and an object's name follows from its number, so a pass may be
cut short anywhere and done again.
"""

from __future__ import annotations

from strandline_api.causes import Cause
from strandline_api.evidence import Evidence
from strandline_api.labels import FINALIZER
from strandline_api.pipeline import PipelineSpec
from strandline_api.reasons import EventReason, Reason
from strandline_api.status import HandledTokens, RetryCounts
from strandline_api.words import Trigger
from strandline_operator.decide.attempt import follow
from strandline_operator.decide.blocks import (
    Block,
    find_delay,
    find_unread,
    is_quota,
    read_refusals,
)
from strandline_operator.decide.deletion import delete
from strandline_operator.decide.dispatch import dispatch, launch, note_dispatched
from strandline_operator.decide.draft import Draft
from strandline_operator.decide.history import trim_history
from strandline_operator.decide.report import report, report_invalid, report_unread
from strandline_operator.decide.run import (
    SUSPEND,
    begin_run,
    count_attempt,
    count_missing,
    measure_recovery,
)
from strandline_operator.decide.scene import Scene
from strandline_operator.decide.storage import examine_claim
from strandline_operator.decide.tidings import tell_changes, tell_losses
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Plan, SetFinalizer
from strandline_operator.model.view import AttemptView, View

# What holds for an attempt whose pipeline can't be read any more: the defaults.
_UNSPECIFIED = PipelineSpec.model_validate(
    {"source": {"use": "unknown"}, "sink": {"use": "unknown-sink"}}
)


def decide(view: View, now: float, limits: Limits, drawn: float) -> Plan:
    """What one pass does.

    Args:
        now: seconds since the epoch.
        drawn: a random number from [0, 1), for random jitter.
    """
    now = round(now, 3)
    draft = Draft(view, limits, now, view.pipeline.status)
    current = view.attempts[-1] if view.attempts else None
    unread = find_unread(view)
    if unread is not None:
        _note_first_requests(draft)
        report_unread(draft, unread)
        return draft.finish()
    if view.pipeline.meta.is_deleting:
        return delete(draft)
    spec = view.pipeline.spec
    if spec is None:
        _note_first_requests(draft)
        _go_on_unspecified(draft, current)
        is_active = current is not None and not draft.status_of(current).is_frozen
        report_invalid(draft, is_active=is_active)
        return draft.finish()
    _decide_run(draft, spec, current, drawn)
    return draft.finish()


def _decide_run(
    draft: Draft, spec: PipelineSpec, current: AttemptView | None, drawn: float
) -> None:
    is_first = not draft.status.run
    requests = _read_requests(draft)
    storage = examine_claim(draft.view, spec)
    if storage.create is not None:
        draft.actions.append(storage.create)
    if is_first:
        begin_run(draft, spec)
    if current is not None:
        note_dispatched(draft, current)
    count_missing(draft, spec, drawn)
    block = _advance(draft, spec, current, requests, drawn)
    is_idle = current is None or draft.status_of(current).is_frozen
    if is_idle and draft.status.run != spec.run_id:
        begin_run(draft, spec)
    _answer(draft, requests, is_idle=is_idle)
    block = block or read_refusals(draft.view.refusals)
    if is_idle and not spec.suspend:
        if not storage.is_usable:
            block = block or Block(storage.reason, storage.detail)
        elif FINALIZER in draft.view.pipeline.meta.finalizers:
            dispatch(draft)
    trim_history(draft, spec)
    _guard(draft, is_idle=is_idle)
    report(draft, spec, current, storage, block)
    tell_changes(draft, block)
    draft.rest(is_idle=is_idle)


def _read_requests(draft: Draft) -> HandledTokens:
    """What annotations ask for that was not acted upon; what was there at first asks nothing."""
    _note_first_requests(draft)
    asked = HandledTokens.of(draft.view.pipeline.meta.annotations)
    known = draft.status.handled or HandledTokens()
    draft.update(handled=asked)
    return HandledTokens(
        retry=asked.retry if asked.retry != known.retry else "",
        cancel=asked.cancel if asked.cancel != known.cancel else "",
    )


def _note_first_requests(draft: Draft) -> None:
    """Take what annotations a new pipeline came with for answered."""
    if not draft.view.pipeline.has_status:
        draft.update(handled=HandledTokens.of(draft.view.pipeline.meta.annotations))


def _advance(
    draft: Draft,
    spec: PipelineSpec,
    current: AttemptView | None,
    requests: HandledTokens,
    drawn: float,
) -> Block | None:
    """Take the newest attempt one step further; what blocks it, if anything does."""
    if current is None:
        return None
    block = None
    _end_others(draft, spec)
    if not current.status.is_frozen:
        scene = Scene.of(draft.view, current)
        stop = _find_wish(draft, spec, requests)
        if _is_launchable(scene) and stop is None:
            block = _launch(draft, scene, spec)
            # What was refused mostly stays so for a while.
            limits = draft.limits
            soon = limits.pull_interval if draft.view.refusals else limits.settle
            draft.wake(draft.now + soon)
        step = follow(scene, spec, draft.limits, draft.now, stop)
        draft.attempts[current.meta.name] = step.status
        draft.actions += step.actions
        draft.wake(step.wake_at)
        measure_recovery(draft, current, step.status)
        tell_losses(draft, scene, step.status)
        block = block or _find_overdue(draft, scene)
        if step.status.end_time is None:
            block = block or find_delay(scene, draft.now)
    count_attempt(draft, spec, current, drawn)
    return block


def _end_others(draft: Draft, spec: PipelineSpec) -> None:
    """Only the newest attempt goes on; older ones can be open after a restore from a copy."""
    replaced = Evidence(Cause.INTERRUPTED, "a newer attempt has taken over", SUSPEND)
    for attempt in draft.view.attempts[:-1]:
        if not attempt.status.is_frozen:
            step = follow(Scene.of(draft.view, attempt), spec, draft.limits, draft.now, replaced)
            draft.attempts[attempt.meta.name] = step.status
            draft.actions += step.actions


def _is_launchable(scene: Scene) -> bool:
    status = scene.attempt.status
    return scene.rayjob is None and status.ray_job is None and status.end_time is None


def _launch(draft: Draft, scene: Scene, spec: PipelineSpec) -> Block | None:
    reason = launch(draft, scene, spec)
    if reason is None:
        return None
    detail = f"still there: {', '.join(scene.others[:3])}" if scene.others else ""
    return Block(reason, detail or scene.rayjob_name)


def _find_wish(draft: Draft, spec: PipelineSpec, requests: HandledTokens) -> Evidence | None:
    """Why the attempt is to end, where that is not the attempt's own matter."""
    if requests.cancel:
        return Evidence(Cause.USER_CANCELLED, f"cancelled: {requests.cancel}", "user")
    if spec.suspend:
        return Evidence(Cause.INTERRUPTED, "the pipeline was suspended", SUSPEND)
    quota = is_quota(draft.view.refusals)
    if quota is not None:
        return Evidence(Cause.QUOTA_EXCEEDED, quota.message, "api server")
    longest, begun = spec.deadlines.run_seconds, draft.status.run_start_time
    if longest is not None and begun is not None:
        if draft.now - begun > longest:
            message = f"the run took longer than deadlines.run allows: {longest:g} s"
            return Evidence(Cause.DEADLINE_EXCEEDED, message, "deadline")
        draft.wake(begun + longest)
    return None


def _find_overdue(draft: Draft, scene: Scene) -> Block | None:
    """That an ended attempt's pods do not go, or can't be known to have gone."""
    status = draft.status_of(scene.attempt)
    if status.is_frozen or status.end_time is None:
        return None
    if scene.wait:
        return Block(Reason.NODE_NOT_ANSWERING, f"The attempt {scene.wait}.")
    if draft.now <= status.end_time + draft.limits.teardown:
        return None
    left = [f"pod {pod.meta.name}" for pod in scene.pods[:3]]
    left += [f"RayCluster {cluster.meta.name}" for cluster in scene.clusters]
    left += [f"RayJob {scene.rayjob_name}, which KubeRay does not let go"] if scene.rayjob else []
    return Block(Reason.TEARDOWN_OVERDUE, f"Still there: {', '.join(left)}.")


def _answer(draft: Draft, requests: HandledTokens, *, is_idle: bool) -> None:
    """Act on requests where no attempt is under way."""
    if not is_idle:
        return
    if requests.cancel and draft.status.next_attempt_time is not None:
        draft.update(
            next_attempt_time=None,
            retry_trigger=None,
            retry_cause=Cause.USER_CANCELLED,
            state=f"cancelled: {requests.cancel}",
        )
        draft.tell(EventReason.RUN_CANCELLED, f"cancelled: {requests.cancel}")
    elif requests.retry:
        draft.update(
            next_attempt_time=draft.now,
            retry_trigger=Trigger.MANUAL,
            retries=draft.status.retries or RetryCounts(),
        )
        draft.tell(EventReason.RETRY_REQUESTED, f"asked for: {requests.retry}")


def _guard(draft: Draft, *, is_idle: bool) -> None:
    """Hold the pipeline while it may have pods, and let it go when it has none."""
    is_held = FINALIZER in draft.view.pipeline.meta.finalizers
    is_needed = not is_idle or draft.status.next_attempt_time is not None
    if is_needed and not is_held:
        draft.actions.insert(0, SetFinalizer(is_set=True))
    elif is_held and not is_needed:
        draft.actions.append(SetFinalizer(is_set=False))


def _go_on_unspecified(draft: Draft, current: AttemptView | None) -> None:
    """An attempt under way goes on although the spec has become invalid; none follows it."""
    if current is not None and not current.status.is_frozen:
        scene = Scene.of(draft.view, current)
        if not _is_launchable(scene):
            step = follow(scene, _UNSPECIFIED, draft.limits, draft.now, None)
            draft.attempts[current.meta.name] = step.status
            draft.actions += step.actions
            draft.wake(step.wake_at)
