"""One pass over one pipeline: observe → decide → enact → count.

This room must not choose anything: it puts the others' work in order and remembers, from one pass
to the next, what the API server refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.cluster.api import Api, Body
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import AttemptEnd, Count, PassPlan, Resource
from strandline_operator.model.view import AttemptObject, PipelineView, Refusal, View
from strandline_operator.reconcile.caches.pods import PodOwner
from strandline_operator.reconcile.enact import Enacted, enact
from strandline_operator.reconcile.observe import (
    Observed,
    PassInputs,
    find_pipeline,
    observe,
    read_attempt,
    read_pipeline,
)
from strandline_operator.reconcile.queue import Passed
from strandline_operator.reconcile.schedule import DispatchGate, Key, SeenPipelines


def foresee(
    view: View,
    done: Enacted,
    read_pipeline: Callable[[Body], PipelineView],
    read_attempt: Callable[[Body], AttemptObject | None],
) -> View:
    """Return the view with the statuses as the server has them now."""
    pipeline = view.pipeline if done.pipeline is None else read_pipeline(done.pipeline)
    bodies = done.attempts
    attempts = (
        (read_attempt(bodies[attempt.meta.name]) if attempt.meta.name in bodies else attempt)
        for attempt in view.attempts
    )
    return replace(
        view,
        pipeline=pipeline,
        attempts=tuple(attempt for attempt in attempts if attempt is not None),
    )


def is_foreseeable(plan: PassPlan, done: Enacted, view: View) -> bool:
    """Return whether a pass has written statuses and nothing else, and met no obstacle.

    What is read beside the statuses depends on some of their fields, so where these have changed
    only a look tells what follows.
    """
    has_written = done.pipeline is not None or bool(done.attempts)
    is_smooth = done.is_written and done.error is None and not (done.refusals or view.refusals)
    before = {attempt.meta.name: attempt.status for attempt in view.attempts}
    is_same = all(
        _pick_turns(before[name]) == _pick_turns(status) for name, status in plan.attempts.items()
    )
    return has_written and is_smooth and is_same and not plan.actions


def _pick_turns(status: AttemptStatus) -> tuple[object, ...]:
    """Return whom a pass asks: the driver and its log, RayJobs of others, or nobody."""
    return status.end_time, status.outcome, status.ray_job, status.is_frozen


def is_empty(plan: PassPlan) -> bool:
    """Return whether there is nothing to do."""
    has_statuses = plan.pipeline is not None or bool(plan.attempts)
    reports = plan.events or plan.counts or plan.audit or plan.ends
    return not (has_statuses or plan.actions or reports)


def list_versions(done: Enacted) -> frozenset[str]:
    """Return the versions that the written statuses have given their objects."""
    bodies = [*done.attempts.values(), *([done.pipeline] if done.pipeline else [])]
    return frozenset(Meta.read(body).version for body in bodies)


_LOGGER = logging.getLogger(__name__)
Decide = Callable[[View, float, Limits, float], PassPlan]


class Counter(Protocol):
    """Whoever keeps the numbers."""

    def note(self, count: Count) -> None:
        """Take a step of a metric."""

    def note_progress(self, pipeline: str, progress: Progress | None) -> None:
        """Take how far a run is; None: it is over, or its pipeline gone."""

    def note_reason(self, pipeline: str, reason: str) -> None:
        """Take what a run's condition says; empty: it is over, or its pipeline gone."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """The version of a pipeline that needs no look before that time."""

    version: str
    until: float


@dataclass(slots=True)
class Passes:
    """Everything that passes need, and what they remember.

    Attributes:
        clock: seconds since the epoch.
        draw: a random number from [0, 1).
        report_end: takes an attempt that is over, at once, whoever is told of it later.
    """

    api: Api
    decide: Decide
    limits: Limits
    inputs: PassInputs
    seen_pipelines: SeenPipelines
    gate: DispatchGate
    counter: Counter
    clock: Callable[[], float]
    draw: Callable[[], float]
    report_end: Callable[[AttemptEnd], None] = lambda _: None
    _refusals: dict[Key, tuple[Refusal, ...]] = field(default_factory=dict)
    _rests: dict[Key, _Rest] = field(default_factory=dict)
    _complained: float = float("-inf")

    async def run(self, key: Key) -> Passed:
        """Do one pass.

        Raises:
            ApiError: it could not be finished; nothing is lost if it is done again.
        """
        now = self.clock()
        pipeline = await find_pipeline(self.api, key, self.inputs.specs)
        if pipeline is None:
            self.forget(key)
            return Passed()
        self._forget_namesake(key, pipeline.meta.uid)
        rest = self._rests.get(key)
        if rest is not None and rest.version == pipeline.meta.version and now < rest.until:
            return Passed(wake_at=rest.until, is_promised=True)
        before, turn = self._refusals.get(key, ()), self.gate.look(now)
        seen = await observe(self.api, pipeline, self.inputs, now, turn=turn, refusals=before)
        now = self.clock()
        plan = self.decide(seen.view, now, self.limits, self.draw())
        done = await enact(self.api, seen.view, plan, now)
        self._report_ends(plan, done)
        self._count(seen.view, plan, done, now)
        if done.error is not None:
            raise done.error
        if done.is_stale:
            # What was decided is out of date, so nothing of it may be kept.
            return Passed(again=True)
        self._refusals[key] = tuple(done.refusals)
        self._rests.pop(key, None)
        if not done.is_written:
            return self._wait_for_rights(key, done, now)
        version, written = pipeline.meta.version, frozenset[str]()
        following = self._foresee(seen.view, plan, done, now)
        if following is not None:
            plan, written = following, list_versions(done)
            version = Meta.read(done.pipeline).version if done.pipeline else version
        if plan.is_at_rest and plan.wake_at is not None:
            self._rests[key] = _Rest(version, plan.wake_at)
        passed = _conclude(seen, plan, done, before, now)
        is_promised = plan.is_at_rest and passed.wake_at == plan.wake_at
        return replace(passed, written=written, is_promised=is_promised)

    def forget(self, key: Key) -> None:
        """Forget a pipeline that is gone."""
        self._drop(key, self.seen_pipelines.remove(key))

    def _foresee(self, view: View, plan: PassPlan, done: Enacted, now: float) -> PassPlan | None:
        """Return the pass that the written statuses ask for, if it does nothing."""
        if not is_foreseeable(plan, done, view):
            return None

        def read(body: Body) -> PipelineView:
            return read_pipeline(body, self.inputs.specs)

        after = foresee(view, done, read, read_attempt)
        following = self.decide(after, now, self.limits, self.draw())
        return following if is_empty(following) else None

    def _wait_for_rights(self, key: Key, done: Enacted, now: float) -> Passed:
        """Wait for the right to write statuses; meanwhile the log and a metric say so."""
        self.counter.note(Count("status_refused"))
        if not 0 <= now - self._complained < self.limits.resync:
            self._complained = now
            text = "; ".join(
                f"{refusal.what} {refusal.name}: {refusal.message}" for refusal in done.refusals
            )
            _LOGGER.warning("no status can be written: %s", text, extra={"pipeline": str(key)})
        return Passed(wake_at=now + self.limits.resync)

    def _forget_namesake(self, key: Key, uid: str) -> None:
        former = self.seen_pipelines.note(key, uid)
        if former:
            self._drop(key, former)

    def _drop(self, key: Key, uid: str) -> None:
        self._refusals.pop(key, None)
        self._rests.pop(key, None)
        self.gate.hold(key, is_held=False)
        self.inputs.forget(PodOwner(key.namespace, uid))
        self.counter.note_progress(uid, None)
        self.counter.note_reason(uid, "")

    def _report_ends(self, plan: PassPlan, done: Enacted) -> None:
        """Report the attempts whose end stands; no later pass sees them end."""
        for end in plan.ends:
            if done.is_written or end.name in done.attempts:
                self.report_end(end)

    def _count(self, view: View, plan: PassPlan, done: Enacted, now: float) -> None:
        if not done.is_written:
            return
        for count in plan.counts:
            self.counter.note(count)
        for _ in range(done.created.count(Resource.ATTEMPT)):
            self.gate.count(now)
        status = plan.pipeline or view.pipeline.status
        summary = status.find_condition(ConditionType.SUCCEEDED)
        key = Key(view.pipeline.meta.namespace, view.pipeline.meta.name)
        is_held = summary is not None and summary.reason == Reason.RETRIES_HELD_BACK
        self.gate.hold(key, is_held=is_held)
        is_active = summary is None or summary.status == "Unknown"
        uid, reason = view.pipeline.meta.uid, summary.reason if summary else Reason.PENDING
        self.counter.note_progress(uid, status.progress if is_active else None)
        self.counter.note_reason(uid, reason if is_active else "")


def _conclude(
    seen: Observed, plan: PassPlan, done: Enacted, before: tuple[Refusal, ...], now: float
) -> Passed:
    times = [time for time in (plan.wake_at, seen.ask_at) if time is not None]
    if not {_identify(refusal) for refusal in done.refusals} <= {
        _identify(refusal) for refusal in before
    }:
        times.append(now)  # so that a condition tells of it at once
    return Passed(wake_at=min(times, default=None))


def _identify(refusal: Refusal) -> tuple[str, str, int]:
    return refusal.what, refusal.name, refusal.status
