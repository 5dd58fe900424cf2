"""Creates the next attempt and its RayJob, after all objects of earlier attempts are gone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace

from strandline_api.api_model import evolve
from strandline_api.names import FINALIZER, name_attempt, name_claim, name_rayjob
from strandline_api.objects.attempt import AttemptSpec, AttemptStatus, ConfigRecord
from strandline_api.outcome.causes import Cause
from strandline_api.spec.pod_paths import MANIFEST, digest_config
from strandline_api.status.defaults import DefaultsRecord
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.preflight import PreflightVerdict
from strandline_api.status.reasons import Reason
from strandline_operator.decide.attempts.fallback import list_on_demand
from strandline_operator.decide.obstacles.code import find_missing_code
from strandline_operator.decide.obstacles.namesakes import find_namesakes
from strandline_operator.decide.obstacles.obstacles import (
    Block,
    find_defaults_record,
    find_reserved_account,
    find_unusable_defaults,
)
from strandline_operator.decide.obstacles.predecessors import (
    find_absent_inputs,
    find_commit_end,
    find_predecessors,
    list_inputs,
    record_inputs,
)
from strandline_operator.decide.obstacles.preflight import check, is_checked
from strandline_operator.decide.obstacles.volumes.output import (
    examine_storage,
    find_unusable_storage,
)
from strandline_operator.decide.scene import Pass, Scene, find_first
from strandline_operator.decide.verdict import PassState, Verdict, add_event, warn
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Action, Count, Create, EventDraft, Manifest, Resource
from strandline_operator.model.view import AttemptObject
from strandline_operator.render.attempt import render_attempt
from strandline_operator.render.defaults import find_default_output, record_output
from strandline_operator.render.network import render_network_beside
from strandline_operator.render.order import Order
from strandline_operator.render.preflight import order_preflight
from strandline_operator.render.rayjob import (
    has_options,
    render_code_map,
    render_config,
    render_disruption_budget,
    render_network_policy,
    render_rayjob,
    render_token_secret,
)

_Rendered = tuple[Resource, Manifest]
# Text for events, by the reason why an attempt was created. A run's first attempt needs no text.
_ORIGINS = {
    Trigger.RUN: "",
    Trigger.RETRY: ", retry",
    Trigger.MANUAL: ", requested by annotation",
    Trigger.RESUME: ", resumed",
    Trigger.REPAIR: ", repair requested by annotation",
}
_LONGEST_CONFIG = 240  # maximum characters of the attempt's name in a ConfigMap's name
Obstacle = Callable[[Pass], Block | None]
# Obstacles to the creation of an attempt. The first match is reported.
_BEFORE_ATTEMPT: tuple[Obstacle, ...] = (
    find_unusable_defaults,
    find_reserved_account,
    find_unusable_storage,
    find_namesakes,
    find_missing_code,
    find_predecessors,
    find_absent_inputs,
)
# Obstacles that can disappear without an event of a watch, so the operator must poll.
_UNWATCHED = frozenset({Reason.NAMESAKE_RUNS, Reason.DEFAULTS_UNUSABLE})
# Seconds until the next pass if predecessors were not read, as in the pass that freezes an attempt.
_NEXT_LOOK = 0.1


def keep_defaults(facts: Pass, standing: PassState) -> Verdict:
    """Record the namespace's defaults, or since when they are missing.

    If an earlier operator recorded no output location, record that of the current defaults.
    """
    view, before = facts.view, standing.status.defaults
    record = find_defaults_record(view, standing.status)
    # A ConfigMap that could not be read may still exist, so it does not count as missing.
    is_read = bool(view.defaults_digest) or not view.defaults_problem
    after = record.note(view.defaults_digest, facts.now) if is_read else record
    has_attempts = bool(standing.status.attempt or view.attempts)
    if has_attempts and after.output is None and find_unusable_defaults(facts) is None:
        after = evolve(after, output=find_default_output(view.pipeline, view.defaults))
    settled = None if after == DefaultsRecord() else after
    if settled == before:
        return Verdict()
    events = (_report_gone(facts),) if record.is_known and not after.is_known else ()
    return Verdict(evolve(standing.status, defaults=settled), events=events)


def _report_gone(facts: Pass) -> EventDraft:
    name = facts.view.defaults_name
    message = f"ConfigMap {name} is still missing; attempts are created without it"
    return warn(EventReason.DEFAULTS_GONE, message)


def make_claim(facts: Pass, standing: PassState) -> Verdict:
    """Create the ledger's claim if it is missing, and enlarge it if the spec requests more."""
    del standing
    action = examine_storage(facts).action
    return Verdict() if action is None else Verdict(actions=(action,))


def note_dispatched(facts: Pass, standing: PassState) -> Verdict:
    """Record that the due attempt was created, so it is no longer due."""
    status, newest = standing.status, facts.newest
    # The newest attempt was already counted, so another attempt is due.
    if newest is None or newest.spec.number <= standing.through:
        return Verdict()
    after = evolve(status, next_attempt_time=None, retry_trigger=None)
    # An earlier pass has already reported this attempt.
    if status.attempt == newest.spec.number:
        return Verdict(after)
    created = newest.meta.created or facts.now
    after = evolve(after, attempt=newest.spec.number, last_attempt_time=created)
    due = status.next_attempt_time
    late = () if due is None else (Count("attempt_delay_seconds", "", max(0.0, facts.now - due)),)
    reported = add_event(EventReason.ATTEMPT_STARTED, _describe(newest.spec), newest.meta.name)
    return Verdict(after, events=(reported,), counts=late)


def find_hindrance(facts: Pass) -> Block | None:
    """Return the first obstacle to another attempt, or None if there is no obstacle."""
    return find_first(_BEFORE_ATTEMPT, facts)


def dispatch(facts: Pass, standing: PassState) -> Verdict:
    """Create the due attempt, unless an obstacle prevents it."""
    # Two attempts would write to the same ledger, and a suspended pipeline must not start attempts.
    if standing.active is not None or facts.spec.suspend:
        return Verdict()
    due, hindrance = standing.status.next_attempt_time, find_hindrance(facts)
    # Keep the attempt due, so that it starts as soon as the obstacle is gone.
    if hindrance is not None:
        is_unwatched = hindrance.reason in _UNWATCHED and due is not None
        wake = facts.now + facts.limits.pull_interval if is_unwatched else None
        return Verdict(block=hindrance, wakes=(wake, find_commit_end(facts)))
    # Wait for the finalizer, without which the pipeline could be deleted before its objects.
    if due is None or FINALIZER not in facts.view.pipeline.meta.finalizers:
        return Verdict()
    wait = _find_wait(facts, standing.status, due)
    return _check_first(facts, standing.status, due) if wait is None else wait


def _find_wait(facts: Pass, status: PipelineStatus, due: float) -> Verdict | None:
    """Return a verdict with the time of the next check, or None if the attempt need not wait."""
    is_first = status.retry_trigger is Trigger.RUN
    # The run became due in this pass, which has not read its predecessors yet.
    if is_first and facts.spec.predecessors and facts.view.others is None:
        return Verdict(wakes=(facts.now + _NEXT_LOOK,))
    # The due time is stored in the status, so the wait survives a restart of the operator.
    if due > facts.now:
        return Verdict(wakes=(due,))
    # Limit simultaneous starts: many runs that failed together would restart and fail together.
    return None if facts.view.turn.is_open else Verdict(wakes=(_find_turn(facts),))


def _check_first(facts: Pass, status: PipelineStatus, due: float) -> Verdict:
    """Create the attempt unless its preflight check is still running or has found an error."""
    if not is_checked(facts.spec, by_default=facts.limits.preflight):
        return _make_attempt(facts, status, due)
    planned = _foresee_attempt(facts, status)
    step = check(facts, status, order_preflight(_make_order(facts, planned)), due)
    after = evolve(status, preflight=step.record)
    checked = Verdict(after, block=step.block, actions=step.actions)
    # No watch covers the check's Job, so poll the Job.
    if step.block is not None:
        return checked.then(Verdict(wakes=(facts.now + facts.limits.settle,)))
    # A check that could not run must not block a valid pipeline.
    if step.record.verdict is not PreflightVerdict.FAILED:
        return checked.then(_make_attempt(facts, after, due))
    message = step.record.message
    over = withdraw_attempt(after, Cause.INVALID_SPEC, message)
    return checked.then(Verdict(over, events=(warn(EventReason.RUN_FAILED, message),)))


def _foresee_attempt(facts: Pass, status: PipelineStatus) -> AttemptObject:
    """Return the due attempt as it would be created."""
    spec, meta = _plan_attempt(facts, status), facts.view.pipeline.meta
    name = name_attempt(meta.name, spec.number)
    return AttemptObject(Meta(name, meta.namespace, ""), spec, AttemptStatus())


def withdraw_attempt(status: PipelineStatus, cause: Cause, message: str) -> PipelineStatus:
    """Withdraw the due attempt, so that the run ends with the given cause."""
    return evolve(
        status, next_attempt_time=None, retry_trigger=None, retry_cause=cause, state=message
    )


def _make_attempt(facts: Pass, status: PipelineStatus, due: float) -> Verdict:
    pipeline = facts.view.pipeline
    spec = _plan_attempt(facts, status)
    attempt = name_attempt(pipeline.meta.name, spec.number)
    audit = f"dispatch {attempt}: {_describe(spec)}, due {facts.now - due:.1f} s ago"
    create = Create(Resource.ATTEMPT, render_attempt(pipeline, spec))
    output = find_default_output(pipeline, facts.view.defaults)
    # Record both first: retries must read the same inputs and write to the same location.
    after = evolve(status, inputs=spec.inputs, defaults=record_output(status.defaults, output))
    return Verdict(after, actions=(create,), audit=(audit,))


def launch(facts: Pass, scene: Scene) -> Verdict:
    """Create the RayJob of an attempt, or report the obstacle."""
    block = find_first(_BEFORE_LAUNCH, facts)
    # Rejections, and pods of an earlier pipeline, usually last for a while, so wait longer.
    is_long = facts.view.refusals or facts.view.namesakes
    pause = facts.limits.pull_interval if is_long else facts.limits.settle
    # A RayJob that is created despite an obstacle would fail and use up a retry.
    if block is not None:
        return Verdict(block=block, wakes=(facts.now + pause,))
    try:
        attempt, manifests = _settle_config(facts, scene.attempt)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        # An invalid pod template from a user must not abort the pass.
        block = Block(Reason.OBJECT_REFUSED, f"the pod templates are invalid: {error!r}")
        return Verdict(block=block, wakes=(facts.now + facts.limits.pull_interval,))
    is_noted = attempt.status == scene.attempt.status
    attempts = {} if is_noted else {attempt.meta.name: attempt.status}
    actions = _list_objects(manifests)
    return Verdict(attempts=attempts, actions=actions, wakes=(facts.now + pause,))


def _settle_config(facts: Pass, attempt: AttemptObject) -> tuple[AttemptObject, list[_Rendered]]:
    """Return the attempt with its ConfigMap recorded, and the manifests of its objects.

    After an edit (for example, to fix a rejected RayJob), the ConfigMap needs a new name: the
    existing ConfigMap is immutable, and the driver must not read the old spec.
    """
    manifests = list_manifests(facts, attempt)
    config, former = _read_config(manifests), attempt.status.config
    if former is not None and former != config:
        name = f"{attempt.meta.name[:_LONGEST_CONFIG]}-{config.digest[:8]}"
        attempt = _note_config(attempt, ConfigRecord(name=name))
        manifests = list_manifests(facts, attempt)
        config = _read_config(manifests)
    return _note_config(attempt, config), manifests


def _note_config(attempt: AttemptObject, config: ConfigRecord) -> AttemptObject:
    return replace(attempt, status=evolve(attempt.status, config=config))


def _read_config(manifests: Iterable[_Rendered]) -> ConfigRecord:
    """Return the record of the first ConfigMap, which the driver and commands read."""
    config = next(manifest for kind, manifest in manifests if kind is Resource.CONFIG_MAP)
    return ConfigRecord(name=config["metadata"]["name"], digest=digest_config(config["data"]))


def is_launchable(scene: Scene) -> bool:
    """Return True if an attempt has not ended, and has never had a RayJob."""
    status = scene.attempt.status
    return scene.rayjob is None and status.ray_job is None and status.end_time is None


def _find_missing_kuberay(facts: Pass) -> Block | None:
    return None if facts.view.has_kuberay else _describe_remains(facts, Reason.KUBERAY_MISSING)


def _find_remains(facts: Pass) -> Block | None:
    """Report remaining objects of any attempt, because two attempts must never have pods."""
    scene = facts.scene
    if scene is None or not (scene.others or scene.pods or scene.clusters):
        return None
    return _describe_remains(facts, Reason.TEARING_DOWN)


def _describe_remains(facts: Pass, reason: Reason) -> Block | None:
    scene = facts.scene
    if scene is None:
        return None
    detail = f"not deleted yet: {', '.join(scene.others[:3])}" if scene.others else ""
    return Block(reason, detail or scene.rayjob_name)


# Obstacles to the creation of a RayJob. The first match is reported.
_BEFORE_LAUNCH: tuple[Obstacle, ...] = (
    find_unusable_defaults,
    find_reserved_account,
    find_namesakes,
    find_missing_code,
    find_absent_inputs,
    _find_missing_kuberay,
    _find_remains,
)


def _list_objects(manifests: Iterable[_Rendered]) -> tuple[Action, ...]:
    """Return the actions that create an attempt's objects, the RayJob last.

    The RayJob's pods mount the other objects. The network policy is created before any pod, so pods
    are never exposed without it.
    """
    # Require strict creation: a KubeRay version that ignores an unknown option would leave the
    # cluster unprotected.
    return tuple(
        Create(
            kind,
            manifest,
            is_strict=kind is Resource.RAYJOB and has_options(manifest),
            # An existing copy of the code may differ, because it has the code of the attempt's
            # first launch.
            is_exact=kind is Resource.CONFIG_MAP and MANIFEST in manifest["data"],
            # The Secret's content needs no check, because the head accepts only this attempt's
            # token.
            is_unread=kind is Resource.SECRET,
        )
        for kind, manifest in manifests
    )


def list_manifests(facts: Pass, attempt: AttemptObject) -> list[_Rendered]:
    """Return the manifests of an attempt's objects with their kinds, in creation order."""
    order = _make_order(facts, attempt)
    documents = (
        (Resource.CONFIG_MAP, render_config(order)),
        (Resource.CONFIG_MAP, render_code_map(order)),
        (Resource.SECRET, render_token_secret(order)),
        (Resource.NETWORK_POLICY, render_network_beside(order)),
        (Resource.NETWORK_POLICY, render_network_policy(order)),
        (Resource.DISRUPTION_BUDGET, render_disruption_budget(order)),
        (Resource.RAYJOB, render_rayjob(order)),
    )
    return [(kind, manifest) for kind, manifest in documents if manifest is not None]


def _make_order(facts: Pass, attempt: AttemptObject) -> Order:
    """Return the inputs from which an attempt's manifests are rendered."""
    pipeline, spec = facts.view.pipeline, facts.spec
    return Order(
        name=attempt.meta.name,
        rayjob=name_rayjob(pipeline.meta.name, attempt.spec.number),
        namespace=pipeline.meta.namespace,
        uid=attempt.meta.uid,
        number=attempt.spec.number,
        pipeline=pipeline.meta.name,
        pipeline_uid=pipeline.meta.uid,
        spec=spec,
        manifest=pipeline.manifest,
        claim=spec.storage.ledger.claim_name or name_claim(pipeline.meta.name),
        limits=facts.limits,
        memory=attempt.spec.memory_bytes,
        after=_find_former_cause(attempt),
        repairs=attempt.spec.trigger is Trigger.REPAIR,
        code=facts.view.code if spec.code.config_map else None,
        inputs=list_inputs(facts, attempt.spec),
        run=attempt.spec.run,
        on_demand=frozenset(attempt.spec.on_demand),
        config=attempt.status.config.name if attempt.status.config else "",
        cpu_rules=facts.view.cpu_rules,
    )


def _find_former_cause(attempt: AttemptObject) -> str:
    """Return the cause of the previous attempt's end, for the next driver, or an empty string.

    Some causes are omitted: those with which the driver did not get the ledger, those that the
    driver itself recorded in the ledger, and those that older drivers do not recognize.
    """
    cause = attempt.spec.retry_cause
    return "" if cause is None or cause in _UNSPOKEN else str(cause.value)


_UNSPOKEN = frozenset(
    {
        Cause.LEDGER_IN_USE,
        Cause.TIMEOUT,
        Cause.RAY_NOT_STARTED,
        Cause.MODEL_UNAVAILABLE,
        Cause.REQUIREMENTS_NOT_MET,
        Cause.BUDGET_SPENT,
    }
)


def _find_turn(facts: Pass) -> float | None:
    """Return when to try again, spread over time across waiting pipelines.

    Return None to wait for the next regular pass.
    """
    turn = facts.view.turn
    if turn.opens_at is None:
        return None
    digest = hashlib.blake2b(facts.view.pipeline.meta.uid.encode(), digest_size=4).digest()
    share = int.from_bytes(digest, "big") / 2**32
    return max(turn.opens_at, facts.now) + share * turn.spread


def _describe(spec: AttemptSpec) -> str:
    why = _ORIGINS[spec.trigger]
    if spec.trigger is Trigger.RETRY and spec.retry_cause is not None:
        why += f" after {spec.retry_cause}"
    return f"attempt {spec.number} of run {spec.run!r}{why}"


def _plan_attempt(facts: Pass, status: PipelineStatus) -> AttemptSpec:
    meta = facts.view.pipeline.meta
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
        on_demand=list_on_demand(status.spot),
        inputs=record_inputs(facts, status),
    )
