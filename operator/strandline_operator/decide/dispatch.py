"""Making the next attempt, and its RayJob: when it is due, and nothing of another one is left."""

from __future__ import annotations

import hashlib

from strandline_api.names import name_attempt, name_claim, name_rayjob
from strandline_api.objects.attempt import AttemptSpec
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import Reason
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.decide.scene import Scene
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import AttemptView
from strandline_operator.render.attempt import render_attempt
from strandline_operator.render.order import Order
from strandline_operator.render.rayjob import render_code_map, render_config, render_rayjob


def dispatch(draft: Draft) -> None:
    """Make the attempt that is due."""
    status, view = draft.status, draft.view
    due = status.next_attempt_time
    if due is None:
        return
    if due > draft.now:
        draft.wake(due)
        return
    if not view.turn.is_open:
        draft.wake(_find_turn(draft))
        return
    spec = _plan_attempt(draft)
    attempt = name_attempt(view.pipeline.meta.name, spec.number)
    draft.actions.append(Create(Resource.ATTEMPT, render_attempt(view.pipeline, spec)))
    draft.audit.append(f"dispatch {attempt}: {_describe(spec)}, due {draft.now - due:.1f} s ago")


def note_dispatched(draft: Draft, current: AttemptView) -> None:
    """The attempt that was due exists: it is due no more."""
    status, number = draft.status, current.spec.number
    if number <= (status.retries.through if status.retries else 0):
        return
    if status.attempt != number:
        made = current.meta.created or draft.now
        draft.update(attempt=number, last_attempt_time=made)
        draft.tell(EventReason.ATTEMPT_STARTED, _describe(current.spec), attempt=current.meta.name)
        if status.next_attempt_time is not None:
            late = max(0.0, draft.now - status.next_attempt_time)
            draft.count("attempt_delay_seconds", "", late)
    draft.update(next_attempt_time=None, retry_trigger=None)


def launch(draft: Draft, scene: Scene, spec: PipelineSpec) -> Reason | None:
    """Make an attempt's RayJob; what stands in its way, if anything does."""
    view, attempt = draft.view, scene.attempt
    if not view.has_kuberay:
        return Reason.KUBERAY_MISSING
    if scene.rayjob_name in view.taken:
        return Reason.NAME_TAKEN
    if scene.others or scene.pods or scene.clusters:
        return Reason.TEARING_DOWN
    order = make_order(draft, attempt, spec)
    draft.actions.append(Create(Resource.CONFIG_MAP, render_config(order)))
    code = render_code_map(order)
    if code is not None:
        draft.actions.append(Create(Resource.CONFIG_MAP, code))
    draft.actions.append(Create(Resource.RAYJOB, render_rayjob(order)))
    return None


def make_order(draft: Draft, attempt: AttemptView, spec: PipelineSpec) -> Order:
    """All that the manifests of an attempt are rendered from."""
    meta = draft.view.pipeline.meta
    return Order(
        name=attempt.meta.name,
        rayjob=name_rayjob(meta.name, attempt.spec.number),
        namespace=meta.namespace,
        uid=attempt.meta.uid,
        number=attempt.spec.number,
        pipeline=meta.name,
        pipeline_uid=meta.uid,
        spec=spec,
        manifest=draft.view.pipeline.manifest,
        claim=spec.storage.ledger.claim_name or name_claim(meta.name),
        limits=draft.limits,
        memory=attempt.spec.memory_bytes,
        after=_find_former_cause(attempt),
        code=draft.view.code if spec.code.config_map else None,
    )


def _find_former_cause(attempt: AttemptView) -> str:
    """What the driver is told of the end of the one that had the ledger before it; empty: nothing.

    An attempt that was refused the ledger never had it: its own end says nothing of that. That a
    call took too long its driver has written down itself, and an older one knows no such cause.
    """
    cause = attempt.spec.retry_cause
    return "" if cause in {None, Cause.LEDGER_IN_USE, Cause.TIMEOUT} else str(cause.value)


def _find_turn(draft: Draft) -> float | None:
    """When to ask again, each waiting pipeline at a moment of its own; None: at the next look."""
    turn = draft.view.turn
    if turn.opens_at is None:
        return None
    digest = hashlib.blake2b(draft.view.pipeline.meta.uid.encode(), digest_size=4).digest()
    share = int.from_bytes(digest, "big") / 2**32
    return max(turn.opens_at, draft.now) + share * turn.spread


def _describe(spec: AttemptSpec) -> str:
    after = f" after {spec.retry_cause}" if spec.retry_cause is not None else ""
    return f"attempt {spec.number} of run {spec.run}, {spec.trigger.value}{after}"


def _plan_attempt(draft: Draft) -> AttemptSpec:
    status, meta = draft.status, draft.view.pipeline.meta
    through = status.retries.through if status.retries else 0
    return AttemptSpec(
        pipeline=meta.name,
        pipeline_uid=meta.uid,
        run=status.run,
        number=through + 1,
        previous=through or None,
        trigger=status.retry_trigger or Trigger.RETRY,
        retry_cause=status.retry_cause,
        memory=status.memory,
    )
