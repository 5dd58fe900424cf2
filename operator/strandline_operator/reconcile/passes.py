"""Executes one pass over one pipeline: observe → decide → enact → count.

A pass reads from the watch caches, which may lag behind. Before an irreversible action, it reads
from the server and decides again. This module must not make decisions. It calls the other modules
in order, and remembers rejected requests from pass to pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Protocol

from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.cluster.access import Access
from strandline_operator.cluster.api import Api
from strandline_operator.decide.evidence.rayjobs import TERMINAL
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import (
    Action,
    AttemptEnd,
    Count,
    Create,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import PipelineView, Refusal, View
from strandline_operator.reconcile.caches.cluster_cache import NamespaceCache
from strandline_operator.reconcile.caches.pods import PodOwner
from strandline_operator.reconcile.departures import RETRY_SECONDS
from strandline_operator.reconcile.enact import PlanResult, enact
from strandline_operator.reconcile.observe import (
    PassInputs,
    PassObservation,
    find_pipeline,
    observe,
)
from strandline_operator.reconcile.readers import CacheReader, Reader, RecheckReader, ServerReader
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.queue import PassResult
from strandline_operator.reconcile.scheduling.schedule import Key, SeenPipelines


class Recheck(IntEnum):
    """Objects that a pass reads from the server instead of the caches."""

    NOTHING = 0
    # All of the pipeline's objects that could run: RayJobs, RayClusters, and pods.
    SIBLINGS = 1
    ALL = 2


def choose_recheck(view: View, plan: PassPlan) -> Recheck:
    """Return which objects to read from the server before executing a plan based on caches.

    Status writes and deletions need no recheck, because they include the version or uid of their
    object.
    """
    if _ends_by_absence(view, plan) or _counts_unseen(view, plan):
        return Recheck.ALL
    is_frozen = any(status.is_frozen for status in plan.attempts.values())
    starts_or_frees = any(_starts_or_frees(action, view) for action in plan.actions)
    return Recheck.SIBLINGS if is_frozen or starts_or_frees else Recheck.NOTHING


def _ends_by_absence(view: View, plan: PassPlan) -> bool:
    """Return True if the plan ends an attempt only because an object or a report is missing."""
    finished_names = {job.meta.name for job in view.rayjobs if job.deployment in TERMINAL}
    open_names = {each.meta.name for each in view.attempts if each.status.end_time is None}
    return any(
        status.end_time is not None
        and status.outcome is None
        and not (status.ray_job is not None and status.ray_job.name in finished_names)
        for name, status in plan.attempts.items()
        if name in open_names
    )


def _counts_unseen(view: View, plan: PassPlan) -> bool:
    """Return True if the plan counts an attempt without proof that it has ended."""
    before, after = view.pipeline.status.retries, plan.pipeline.retries if plan.pipeline else None
    if before is None or after is None or after.through == before.through:
        return False
    over = (
        attempt.spec.number
        for attempt in view.attempts
        if plan.attempts.get(attempt.meta.name, attempt.status).is_frozen
    )
    return after.through not in over


def _starts_or_frees(action: Action, view: View) -> bool:
    if isinstance(action, Create):
        return action.resource is Resource.RAYJOB and not _is_proven_alone(view)
    is_release = isinstance(action, SetFinalizer) and not action.is_set
    return is_release and view.pipeline.meta.is_deleting


def _is_proven_alone(view: View) -> bool:
    """Return True if the statuses prove that no other attempt of the pipeline has pods.

    The pass that froze the previous attempt read RayJobs, RayClusters, and pods from the server.
    The previous attempt was launched, so the same was proven then for all earlier attempts. Since
    then, only a launch of the newest attempt could have created objects. A launch first records a
    ConfigMap in the status, and a late view of that status is refused by the server.
    """
    newest = view.attempts[-1]
    if newest.status.config is not None:
        return False
    number = newest.spec.previous
    return number is None or any(
        attempt.spec.number == number
        and attempt.status.is_frozen
        and attempt.status.ray_job is not None
        for attempt in view.attempts
    )


def is_unchecked(plan: PassPlan) -> bool:
    """Return True if a plan creates objects without a status write that detects a stale view."""
    return plan.pipeline is None and any(isinstance(action, Create) for action in plan.actions)


_LOGGER = logging.getLogger(__name__)
Decide = Callable[[View, float, Limits, float], PassPlan]
_Decided = tuple[PassObservation, PassPlan, float]


class Counter(Protocol):
    """Receives values for metrics."""

    def note(self, count: Count) -> None:
        """Record one count of a metric."""

    def note_progress(self, pipeline: str, progress: Progress | None) -> None:
        """Record a run's progress, or None if the run has ended or its pipeline was deleted."""

    def note_reason(self, pipeline: str, reason: str) -> None:
        """Record the reason of a run's condition `Succeeded`; empty if no run is active."""

    def note_result(self, pipeline: str, namespace: str, result: str) -> None:
        """Record the last run's result; empty if a run is active or the pipeline is gone."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """A period in which a pipeline needs no pass, unless its version changes."""

    version: str
    since: float
    until: float

    def lasts(self, version: str, now: float) -> bool:
        """Return True if no pass is needed. A pass is needed if the clock was set back."""
        return self.version == version and self.since <= now < self.until


@dataclass(slots=True)
class Passes:
    """Dependencies of passes, and their state between passes.

    Attributes:
        clock: function that returns the current time in seconds since the epoch.
        draw: function that returns a random number from [0, 1).
        report_end: function that receives an ended attempt. It must return immediately, keep the
            order, and ignore ends that it has received before, because every pass submits all
            pending ends.
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

    async def run(self, key: Key) -> PassResult:
        """Execute one pass.

        Raises:
            ApiError: if the pass was interrupted. It can be repeated safely.
        """
        now = self.clock()
        cache = self.inputs.cache.find_current(key.namespace, now)
        pipeline = await self._find_pipeline(key, cache)
        if pipeline is None:
            self.forget(key)
            return PassResult()
        self._forget_namesake(key, pipeline.meta.uid)
        rest = self._rests.get(key)
        if rest is not None and rest.lasts(pipeline.meta.version, now):
            return PassResult(wake_at=rest.until, is_promised=True)
        decision = await self._decide(key, pipeline, cache)
        # The pipeline was deleted. The watch will report that soon.
        return PassResult(again=True) if decision is None else await self._carry_out(key, *decision)

    async def _carry_out(
        self, key: Key, observation: PassObservation, plan: PassPlan, now: float
    ) -> PassResult:
        outcome = await enact(self.api, observation.view, plan, now)
        uid = observation.view.pipeline.meta.uid
        changes = [self.inputs.put(key.namespace, uid, *answer, now) for answer in outcome.answers]
        is_left = await self.inputs.departures.report(self.api, uid, plan.departures, self.limits)
        self._report_ends(plan, outcome)
        self._count(observation.view, plan, outcome, now)
        if outcome.error is not None:
            raise outcome.error
        if outcome.is_stale:
            # Return without storing state, because the decision was based on outdated objects.
            return PassResult(again=True)
        before, self._refusals[key] = self._refusals.get(key, ()), tuple(outcome.refusals)
        self._rests.pop(key, None)
        if not outcome.is_written:
            return self._wait_for_rights(key, outcome, now)
        if any(changes):
            # Request the next pass here: the cache already contains the changes, so the watch
            # reports nothing new.
            return PassResult(wake_at=now)
        if plan.is_at_rest and plan.wake_at is not None:
            self._rests[key] = _Rest(observation.view.pipeline.meta.version, now, plan.wake_at)
        passed = _conclude(observation, plan, outcome, before, now)
        if is_left:
            # Try again soon: the driver may respond then, and the node has little time left.
            soon = now + RETRY_SECONDS
            wake_at = soon if passed.wake_at is None else min(passed.wake_at, soon)
            passed = replace(passed, wake_at=wake_at)
        return replace(passed, is_promised=plan.is_at_rest and passed.wake_at == plan.wake_at)

    async def _find_pipeline(self, key: Key, cache: NamespaceCache | None) -> PipelineView | None:
        pipeline = None if cache is None else cache.find_pipeline(*key)
        return pipeline or await find_pipeline(self.api, key, self.inputs.cache)

    async def _decide(
        self, key: Key, pipeline: PipelineView, cache: NamespaceCache | None
    ) -> _Decided | None:
        """Decide, and read from the server and decide again if necessary.

        Return None if the pipeline was deleted.

        Raises:
            ApiError: if reading failed.
        """
        if cache is None:
            return await self._look(key, pipeline, ServerReader)
        observation, plan, now = await self._look(key, pipeline, partial(CacheReader, cache=cache))
        level = choose_recheck(observation.view, plan)
        if level is Recheck.SIBLINGS:
            recheck = partial(RecheckReader, cache=cache)
            observation, plan, now = await self._look(key, pipeline, recheck)
            level = choose_recheck(observation.view, plan)
        if level is not Recheck.ALL and not is_unchecked(plan):
            return observation, plan, now
        fresh = await find_pipeline(self.api, key, self.inputs.cache)
        if fresh is None:
            return None
        is_same = fresh.meta.version == pipeline.meta.version and level is not Recheck.ALL
        return (observation, plan, now) if is_same else await self._look(key, fresh, ServerReader)

    async def _look(
        self, key: Key, pipeline: PipelineView, open_reader: Callable[[Access], Reader]
    ) -> _Decided:
        now = self.clock()
        observation = await observe(
            self.api,
            pipeline,
            self.inputs,
            now,
            turn=self.gate.look(now, key, is_alone=self.seen_pipelines.are_of_one_namespace),
            refusals=self._refusals.get(key, ()),
            open_reader=open_reader,
        )
        now = self.clock()
        return observation, self.decide(observation.view, now, self.limits, self.draw()), now

    def forget(self, key: Key) -> None:
        """Forget a deleted pipeline."""
        self._drop(key, self.seen_pipelines.remove(key))

    def _wait_for_rights(self, key: Key, outcome: PlanResult, now: float) -> PassResult:
        """Wait for permission to write statuses, and report the problem in log and metrics."""
        self.counter.note(Count("status_refused"))
        if not 0 <= now - self._complained < self.limits.resync:
            self._complained = now
            text = "; ".join(
                f"{refusal.what} {refusal.name}: {refusal.message}" for refusal in outcome.refusals
            )
            _LOGGER.warning("no status can be written: %s", text, extra={"pipeline": str(key)})
        return PassResult(wake_at=now + self.limits.resync)

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
        self.counter.note_result(uid, key.namespace, "")

    def _report_ends(self, plan: PassPlan, outcome: PlanResult) -> None:
        """Report the ends of attempts whose status was written."""
        for end in plan.ends:
            if outcome.is_written or end.name in outcome.attempts:
                self.report_end(end)

    def _count(self, view: View, plan: PassPlan, outcome: PlanResult, now: float) -> None:
        if not outcome.is_written:
            return
        for count in plan.counts:
            self.counter.note(count)
        key = Key(view.pipeline.meta.namespace, view.pipeline.meta.name)
        for _ in range(outcome.created.count(Resource.ATTEMPT)):
            self.gate.count(now, key)
        status = plan.pipeline or view.pipeline.status
        summary = status.find_condition(ConditionType.SUCCEEDED)
        is_held = summary is not None and summary.reason == Reason.RETRIES_HELD_BACK
        self.gate.hold(key, is_held=is_held)
        is_active = summary is None or summary.status == "Unknown"
        uid, reason = view.pipeline.meta.uid, summary.reason if summary else Reason.PENDING
        self.counter.note_progress(uid, status.progress if is_active else None)
        self.counter.note_reason(uid, reason if is_active else "")
        self.counter.note_result(uid, key.namespace, "" if is_active else reason)


def _conclude(
    observation: PassObservation,
    plan: PassPlan,
    outcome: PlanResult,
    before: tuple[Refusal, ...],
    now: float,
) -> PassResult:
    times = [time for time in (plan.wake_at, observation.ask_at) if time is not None]
    if not {_identify(refusal) for refusal in outcome.refusals} <= {
        _identify(refusal) for refusal in before
    }:
        times.append(now)  # report the rejection in a condition immediately
    return PassResult(wake_at=min(times, default=None))


def _identify(refusal: Refusal) -> tuple[str, str, int]:
    return refusal.what, refusal.name, refusal.status
