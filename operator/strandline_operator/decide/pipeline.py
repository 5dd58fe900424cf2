"""One pass over a pipeline: what its attempts come to, whether another follows, what is reported.

Everything that must survive the operator is in the statuses: an attempt that is due is a time in
the status before it is an object, and an object's name follows from its number, so a pass may be
cut short anywhere and done again.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline_api.names import FINALIZER
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_api.status.pipeline_status import HandledTokens
from strandline_api.status.reasons import Reason
from strandline_operator.decide.attempts.attempt import follow
from strandline_operator.decide.attempts.deadline import (
    describe_run_deadline,
    expire,
    find_run_end,
    keep_time,
)
from strandline_operator.decide.attempts.report import (
    report,
    report_deletion,
    report_invalid,
    report_unread,
    tell_changes,
    tell_losses,
)
from strandline_operator.decide.attempts.run import (
    SUSPEND,
    begin_run,
    count_attempt,
    count_missing,
    measure_recovery,
)
from strandline_operator.decide.dispatch import dispatch, launch, note_dispatched
from strandline_operator.decide.memory import settle_memory
from strandline_operator.decide.obstacles.code import find_missing_code
from strandline_operator.decide.obstacles.namesakes import find_namesakes
from strandline_operator.decide.obstacles.obstacles import (
    Block,
    find_unread,
    read_refusals,
)
from strandline_operator.decide.output import examine_output, join
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.decide.requests import (
    answer,
    answer_cancel,
    note_first_requests,
    read_requests,
    settle_under_way,
    spell_cancel,
)
from strandline_operator.decide.scene import Scene, describe_wait, part_pods
from strandline_operator.decide.storage import Storage, examine_claim
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Delete, Plan, Resource, SetFinalizer
from strandline_operator.model.view import AttemptView, View


def delete(draft: Draft) -> Plan:
    """What one pass over it does.

    Its claim stays unless the claim is the pipeline's own, in which case the API server's garbage
    collection takes it. A RayJob that KubeRay does not let go of is not waited for: pods are.
    """
    view = draft.view
    if FINALIZER not in view.pipeline.meta.finalizers:
        return draft.finish()
    for rayjob in view.rayjobs:
        if not rayjob.meta.is_deleting:
            draft.actions.append(Delete(Resource.RAYJOB, rayjob.meta.name, rayjob.meta.uid))
    # Where KubeRay is gone its finalizer would hold RayJob and cluster for ever; the cluster's pods
    # would never be deleted.
    for cluster in view.rayclusters:
        if not cluster.meta.is_deleting:
            draft.actions.append(Delete(Resource.RAYCLUSTER, cluster.meta.name, cluster.meta.uid))
    pods, _ = part_pods(view)
    for pod in pods:
        if not pod.meta.is_deleting:
            draft.actions.append(Delete(Resource.POD, pod.meta.name, pod.meta.uid))
    if pods:
        names = ", ".join(pod.meta.name for pod in pods[:3])
        wait = describe_wait(pods, view.nodes)
        report_deletion(draft, f"Still there: {names}{f'; it {wait}' if wait else ''}.")
    else:
        draft.actions.append(SetFinalizer(is_set=False))
        report_deletion(draft, "")
    draft.wake(draft.now + draft.limits.settle)
    return draft.finish()


def trim_history(draft: Draft, spec: PipelineSpec) -> None:
    """Delete old attempts; the newest one always stays, and so does one that is not counted."""
    counted = draft.status.retries.through if draft.status.retries else 0
    ended = [
        one
        for one in draft.view.attempts[:-1]
        if one.spec.number <= counted and draft.status_of(one).is_frozen
    ]
    beyond = ended[: max(0, len(draft.view.attempts) - spec.attempt_history_limit)]
    longest = spec.ttl_after_finished_seconds
    for one in ended:
        end = draft.status_of(one).end_time
        is_past = False
        if longest is not None and end is not None:
            is_past = draft.now >= end + longest
            draft.wake(end + longest)
        if (one in beyond or is_past) and not one.meta.is_deleting:
            draft.actions.append(Delete(Resource.ATTEMPT, one.meta.name, one.meta.uid))


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
        note_first_requests(draft)
        report_unread(draft, unread)
        return draft.finish()
    if view.pipeline.meta.is_deleting:
        return delete(draft)
    spec = view.pipeline.spec
    if spec is None:
        _go_on_unspecified(draft, current, read_requests(draft))
        is_active = current is not None and not draft.status_of(current).is_frozen
        report_invalid(draft, is_active=is_active)
        return draft.finish()
    _decide_run(draft, spec, current, drawn)
    return draft.finish()


def _decide_run(
    draft: Draft, spec: PipelineSpec, current: AttemptView | None, drawn: float
) -> None:
    is_first = not draft.status.run
    requests = read_requests(draft)
    storage = join(examine_claim(draft.view, spec), examine_output(draft.view, spec))
    if storage.create is not None:
        draft.actions.append(storage.create)
    if is_first:
        begin_run(draft, spec)
    if current is not None:
        note_dispatched(draft, current)
    keep_time(draft, spec, current)
    count_missing(draft, spec, drawn)
    block = _advance(draft, spec, current, requests, drawn)
    is_idle = current is None or draft.status_of(current).is_frozen
    if is_idle:
        block = _go_on_idle(draft, spec, storage, block)
    block = block or read_refusals(draft.view.refusals)
    trim_history(draft, spec)
    _guard(draft, is_idle=is_idle)
    report(draft, spec, current, storage, block)
    tell_changes(draft, block)
    draft.rest(is_idle=is_idle)


def _go_on_idle(
    draft: Draft, spec: PipelineSpec, storage: Storage, block: Block | None
) -> Block | None:
    """Where no attempt is under way: answer requests, and make the next one if nothing hinders."""
    if draft.status.run != spec.run_id:
        begin_run(draft, spec)
    answer(draft, read_requests(draft))
    expire(draft, spec)
    if draft.status.next_attempt_time is not None:
        settle_memory(draft, spec)
    block = block or read_refusals(draft.view.refusals)
    if spec.suspend:
        return block
    hindrance = _find_hindrance(draft, spec, storage)
    if hindrance is None and FINALIZER in draft.view.pipeline.meta.finalizers:
        dispatch(draft)
    return block or hindrance


def _find_hindrance(draft: Draft, spec: PipelineSpec, storage: Storage) -> Block | None:
    """What has to change before the next attempt may be made."""
    if not storage.is_usable:
        return Block(storage.reason, storage.detail)
    namesakes = find_namesakes(draft.view)
    if namesakes is not None and draft.status.next_attempt_time is not None:
        draft.wake(draft.now + draft.limits.pull_interval)  # no watch tells of them
    return namesakes or find_missing_code(draft.view, spec)


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
            # What was refused or is in the way mostly stays so for a while.
            limits, is_long = draft.limits, draft.view.refusals or draft.view.namesakes
            draft.wake(draft.now + (limits.pull_interval if is_long else limits.settle))
        step = follow(scene, spec, draft.limits, draft.now, stop)
        draft.attempts[current.meta.name] = step.status
        settle_under_way(draft, requests, current)
        draft.actions += step.actions
        draft.wake(step.wake_at)
        measure_recovery(draft, current, step.status)
        tell_losses(draft, scene, step.status)
        block = block or _find_overdue(draft, scene) or step.delay
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
    hindrance = find_namesakes(draft.view) or find_missing_code(draft.view, spec)
    if hindrance is not None:
        return hindrance
    reason = launch(draft, scene, spec)
    if reason is None:
        return None
    detail = f"still there: {', '.join(scene.others[:3])}" if scene.others else ""
    return Block(reason, detail or scene.rayjob_name)


def _find_wish(draft: Draft, spec: PipelineSpec, requests: HandledTokens) -> Evidence | None:
    """Why the attempt is to end, where that is not the attempt's own matter."""
    wish = _find_users_wish(requests, is_suspended=spec.suspend)
    if wish is not None:
        return wish
    ends_at = find_run_end(draft, spec)
    if ends_at is not None and draft.now > ends_at:
        return Evidence(Cause.DEADLINE_EXCEEDED, describe_run_deadline(spec), "deadline")
    draft.wake(ends_at)
    return None


def _find_users_wish(requests: HandledTokens, *, is_suspended: bool) -> Evidence | None:
    if requests.cancel:
        return Evidence(Cause.USER_CANCELLED, spell_cancel(requests.cancel), "user")
    if is_suspended:
        return Evidence(Cause.INTERRUPTED, "the pipeline was suspended", SUSPEND)
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


def _guard(draft: Draft, *, is_idle: bool) -> None:
    """Hold the pipeline while it may have pods, and let it go when it has none."""
    is_held = FINALIZER in draft.view.pipeline.meta.finalizers
    is_needed = not is_idle or draft.status.next_attempt_time is not None
    if is_needed and not is_held:
        draft.actions.insert(0, SetFinalizer(is_set=True))
    elif is_held and not is_needed:
        draft.actions.append(SetFinalizer(is_set=False))


def _go_on_unspecified(draft: Draft, current: AttemptView | None, requests: HandledTokens) -> None:
    """An attempt under way goes on although the spec has become invalid; none follows it.

    It can still be ended by hand. A retry waits until the spec can be read.
    """
    through = draft.status.retries.through if draft.status.retries else 0
    if current is None or (current.status.is_frozen and current.spec.number <= through):
        if requests.cancel:
            answer_cancel(draft, requests)
        return
    scene, stop = Scene.of(draft.view, current), _find_unspecified_wish(draft, requests)
    if current.status.is_frozen or (stop is None and _is_launchable(scene)):
        return
    step = follow(scene, _UNSPECIFIED, draft.limits, draft.now, stop)
    draft.attempts[current.meta.name] = step.status
    settle_under_way(draft, HandledTokens(cancel=requests.cancel), current)
    draft.actions += step.actions
    draft.wake(step.wake_at)


def _find_unspecified_wish(draft: Draft, requests: HandledTokens) -> Evidence | None:
    """The same wishes where nothing else of the spec can be read."""
    written = draft.view.pipeline.manifest.get("spec")
    is_suspended = isinstance(written, Mapping) and written.get("suspend") is True
    return _find_users_wish(requests, is_suspended=is_suspended)
