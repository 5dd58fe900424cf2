"""A pass reads, decides, and writes, in this order, and remembers refused requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_api import Call, FakeApi
from operator_bodies import (
    KEY,
    NAMESPACE,
    make_attempt,
    make_pipeline,
    make_pod,
    make_rayjob,
    spell_attempt,
)
from played_operator import Operator
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.pipeline_status import Condition, PipelineStatus, Progress
from strandline_operator.cluster.errors import ApiError, Conflict, Forbidden, Unavailable
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import (
    AttemptEnd,
    Count,
    Create,
    EventDraft,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import View
from strandline_operator.reconcile.caches.namespaces.defaults import NamespaceDefaults
from strandline_operator.reconcile.caches.pods import PodMemory
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.observe import PassInputs
from strandline_operator.reconcile.passes import Passes
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.queue import PassResult
from strandline_operator.reconcile.scheduling.schedule import Key, SeenPipelines

LIMITS = Limits(settle=9.0)


class Scene:
    """Passes over a pipeline. The test sets the decision."""

    def __init__(self, per_minute: float = 60) -> None:
        self.api = FakeApi()
        self.pipeline = make_pipeline(self.api.store)
        self.uid = str(self.pipeline["metadata"]["uid"])
        self.plan: PassPlan | Callable[[View], PassPlan] = PassPlan()
        self.now = 100.0
        self.decided: list[tuple[View, float, Limits, float]] = []
        self.counts: list[Count] = []
        self.ends: list[AttemptEnd] = []
        self.progress: dict[str, Progress | None] = {}
        self.reasons: dict[str, str] = {}
        self.results: dict[str, tuple[str, str]] = {}
        self.inputs = PassInputs(
            PodMemory(), DriverTalk(LIMITS), NamespaceDefaults("strandline-defaults"), RetryPolicy()
        )
        self.passes = Passes(
            api=self.api,
            decide=self.decide,
            limits=LIMITS,
            inputs=self.inputs,
            seen_pipelines=SeenPipelines(),
            gate=DispatchGate(per_minute),
            counter=self,
            clock=lambda: self.now,
            draw=lambda: 0.25,
            report_end=self.ends.append,
        )

    def decide(self, view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
        self.decided.append((view, now, limits, drawn))
        return self.plan(view) if callable(self.plan) else self.plan

    def note(self, count: Count) -> None:
        self.counts.append(count)

    def note_progress(self, pipeline: str, progress: Progress | None) -> None:
        self.progress[pipeline] = progress

    def note_result(self, pipeline: str, namespace: str, result: str) -> None:
        self.results[pipeline] = (namespace, result)

    def note_reason(self, pipeline: str, reason: str) -> None:
        self.reasons[pipeline] = reason

    def run(self) -> PassResult:
        return asyncio.run(self.passes.run(KEY))

    def fail(self, error: ApiError, **fields: Any) -> None:
        def hook(call: Call) -> None:
            if all(getattr(call, name) == value for name, value in fields.items()):
                raise error

        self.api.before.append(hook)


def test_a_decision_gets_the_view_the_time_the_limits_and_a_random_number() -> None:
    scene = Scene()
    scene.plan = PassPlan(wake_at=160.0)
    assert scene.run() == PassResult(wake_at=160.0)
    ((view, now, limits, drawn),) = scene.decided
    assert (view.pipeline.meta.uid, now, limits, drawn) == (scene.uid, 100.0, LIMITS, 0.25)
    assert scene.passes.seen_pipelines.find(scene.uid) == KEY


def test_a_deleted_pipeline_is_forgotten() -> None:
    scene = Scene()
    scene.run()
    pod = make_pod(scene.api.store, scene.pipeline, "head", "head")
    scene.inputs.pods.note(Observation(Pod.read(pod), is_gone=True))
    scene.api.store.remove(Resource.PIPELINE, NAMESPACE, "corpus")

    assert scene.run() == PassResult()
    assert len(scene.inputs.pods) == 0
    assert scene.passes.seen_pipelines.find(scene.uid) is None
    assert scene.progress[scene.uid] is None
    assert scene.reasons[scene.uid] == ""
    assert len(scene.decided) == 1


def test_a_recreated_pipeline_has_no_history() -> None:
    scene = Scene()
    scene.fail(Forbidden(403, "", "no"), verb="patch")
    scene.plan = PassPlan(actions=(SetFinalizer(is_set=True),))
    scene.run()
    pod = make_pod(scene.api.store, scene.pipeline, "head", "head")
    scene.inputs.pods.note(Observation(Pod.read(pod), is_gone=True))
    scene.api.store.remove(Resource.PIPELINE, NAMESPACE, "corpus")
    make_pipeline(scene.api.store)
    scene.run()
    assert len(scene.inputs.pods) == 0
    assert scene.passes.seen_pipelines.find(scene.uid) is None


def test_counts_are_reported_after_the_statuses_are_written() -> None:
    scene = Scene()
    scene.plan = PassPlan(pipeline=PipelineStatus(attempt=1), counts=(Count("attempts", "Killed"),))
    scene.run()
    assert scene.counts == [Count("attempts", "Killed")]


def make_end(scene: Scene) -> AttemptEnd:
    status = AttemptStatus(is_frozen=True, end_time=90.0)
    return AttemptEnd(NAMESPACE, "corpus-1", "corpus", scene.uid, "first", 1, status)


@pytest.mark.parametrize(
    ("refused", "expected"),
    [(None, 1), (Resource.PIPELINE, 1), (Resource.ATTEMPT, 0)],
)
def test_an_end_is_reported_once_its_status_is_written(
    refused: Resource | None, expected: int
) -> None:
    """No later pass reports the end again, even if a pass repeats other work."""
    scene = Scene()
    make_attempt(scene.api.store, scene.pipeline)
    end = make_end(scene)
    scene.plan = PassPlan(
        pipeline=PipelineStatus(attempt=1), attempts={"corpus-1": end.status}, ends=(end,)
    )
    if refused is not None:
        scene.fail(Conflict(409, "Conflict", "changed"), verb="status", resource=refused)
    scene.run()
    assert scene.ends == [end] * expected


def test_an_end_is_reported_despite_a_failed_pipeline_status() -> None:
    """The pass reports the end although a later write fails, because the next pass sees no end."""
    scene = Scene()
    make_attempt(scene.api.store, scene.pipeline)
    end = make_end(scene)
    scene.fail(Unavailable(503, "", "later"), verb="status", resource=Resource.PIPELINE)
    scene.plan = PassPlan(
        pipeline=PipelineStatus(attempt=1), attempts={"corpus-1": end.status}, ends=(end,)
    )
    with pytest.raises(Unavailable):
        scene.run()
    assert scene.ends == [end]


def test_an_end_is_reported_despite_later_failures() -> None:
    scene = Scene()
    make_attempt(scene.api.store, scene.pipeline)
    end = make_end(scene)
    scene.fail(Unavailable(503, "", "later"), verb="patch")
    scene.plan = PassPlan(
        attempts={"corpus-1": end.status}, ends=(end,), actions=(SetFinalizer(is_set=True),)
    )
    with pytest.raises(Unavailable):
        scene.run()
    assert scene.ends == [end]


def test_a_conflicting_status_reports_no_counts() -> None:
    scene = Scene()

    def touch(view: View) -> PassPlan:
        scene.api.store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", {"attempt": 9})
        return PassPlan(pipeline=PipelineStatus(attempt=1), counts=(Count("attempts", "Killed"),))

    scene.plan = touch
    assert scene.run() == PassResult(again=True)
    assert scene.counts == []


def test_a_conflict_is_no_failure_and_causes_another_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The user deletes the pipeline while the operator adds the finalizer."""
    caplog.set_level("INFO", logger="strandline_operator")
    scene = Scene()
    scene.fail(Conflict(409, "Conflict", "the object has been modified"), verb="patch")
    scene.plan = PassPlan(actions=(SetFinalizer(is_set=True),), wake_at=160.0, is_at_rest=True)
    assert scene.run() == PassResult(again=True)
    assert scene.run() == PassResult(again=True)
    assert len(scene.decided) == 2
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_counts_are_reported_even_if_an_action_has_to_wait() -> None:
    scene = Scene()
    scene.fail(Unavailable(500, "", "sorry"), verb="patch")
    scene.plan = PassPlan(
        pipeline=PipelineStatus(attempt=1),
        actions=(SetFinalizer(is_set=True),),
        events=(EventDraft("RunStarted", "it starts"),),
        counts=(Count("attempts", "Killed"),),
    )
    with pytest.raises(Unavailable):
        scene.run()
    assert len(scene.counts) == 1
    assert len(scene.api.store.list(Resource.EVENT)) == 1


def test_a_refusal_is_passed_to_the_next_pass() -> None:
    scene = Scene()
    scene.fail(Forbidden(403, "Forbidden", "exceeded quota"), verb="patch")
    scene.plan = PassPlan(actions=(SetFinalizer(is_set=True),), wake_at=160.0)

    assert scene.run() == PassResult(wake_at=100.0)
    assert scene.run() == PassResult(wake_at=160.0)
    (refusal,) = scene.decided[1][0].refusals
    assert (refusal.what, refusal.status) == ("curationpipelines.strandline.dev", 403)
    assert scene.decided[0][0].refusals == ()

    scene.api.before.clear()
    assert scene.run() == PassResult(wake_at=160.0)
    scene.run()
    assert scene.decided[3][0].refusals == ()


def test_attempts_count_against_the_rate_when_they_are_made() -> None:
    scene = Scene(per_minute=1)
    create = Create(Resource.ATTEMPT, spell_attempt(scene.pipeline))
    scene.plan = PassPlan(actions=(create,))
    for _ in range(3):
        scene.run()
    assert [view.turn.is_open for view, *_ in scene.decided] == [True, False, False]
    scene.now += 61.0
    scene.run()
    assert scene.decided[3][0].turn.is_open


def test_the_driver_is_polled_again_without_any_event() -> None:
    scene = Scene()
    make_attempt(scene.api.store, scene.pipeline)
    make_pod(scene.api.store, scene.pipeline, "head", "head", ip="10.0.0.7")
    scene.plan = PassPlan(wake_at=160.0)
    assert scene.run() == PassResult(wake_at=100.0 + LIMITS.pull_interval)


def test_an_idle_pipeline_costs_one_read_until_a_change_or_its_time() -> None:
    scene = Scene()
    scene.plan = PassPlan(wake_at=700.0, is_at_rest=True)
    scene.run()
    calls = len(scene.api.calls)
    assert scene.run() == PassResult(wake_at=700.0, is_promised=True)
    assert len(scene.api.calls) == calls + 1
    assert len(scene.decided) == 1

    scene.api.store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", {"attempt": 1})
    scene.run()
    assert len(scene.decided) == 2
    scene.now = 700.0
    scene.run()
    assert len(scene.decided) == 3


def test_a_rest_that_began_in_the_future_is_over() -> None:
    scene = Scene()
    scene.plan = PassPlan(wake_at=700.0, is_at_rest=True)
    scene.run()
    scene.now -= 60.0
    scene.run()
    assert len(scene.decided) == 2


def test_held_pipelines_are_reported_to_the_gate() -> None:
    scene = Scene(per_minute=1)
    key = Key(NAMESPACE, "corpus")
    scene.passes.gate.count(scene.now, key)
    held = Condition(
        type="Succeeded", status="Unknown", reason="RetriesHeldBack", last_transition_time=1.0
    )
    scene.plan = PassPlan(pipeline=PipelineStatus(conditions=(held,)))
    scene.run()
    assert scene.passes.gate.look(scene.now, key).spread == 60.0
    scene.api.store.remove(Resource.PIPELINE, NAMESPACE, "corpus")
    scene.run()
    assert scene.passes.gate.look(scene.now, key).spread == 0.0


def test_progress_counts_while_the_run_continues() -> None:
    scene = Scene()
    progress = Progress(finished=3)
    scene.plan = PassPlan(pipeline=PipelineStatus(progress=progress))
    scene.run()
    assert scene.progress == {scene.uid: progress}
    assert scene.reasons == {scene.uid: "Pending"}

    ended = Condition(type="Succeeded", status="True", reason="Completed", last_transition_time=1.0)
    scene.plan = PassPlan(pipeline=PipelineStatus(progress=progress, conditions=(ended,)))
    scene.run()
    assert scene.progress == {scene.uid: None}
    assert scene.reasons == {scene.uid: ""}


def test_a_head_of_another_namespace_ends_no_run() -> None:
    """The other head has all labels of this run, like a backup restored to another namespace."""
    api = FakeApi()
    store = api.store
    pipeline = make_pipeline(store)
    attempt = make_attempt(store, pipeline)
    status = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
    make_rayjob(store, pipeline, attempt, status)
    body = make_pod(store, pipeline, "head", "head")
    operator = Operator(api, LIMITS)
    head = Pod.read(body)
    copy = replace(head, meta=replace(head.meta, namespace="elsewhere", uid="copy", created=1e12))
    for is_gone in (False, True):
        asyncio.run(operator.passes.run(KEY))
        operator.memory.note(Observation(copy, is_gone))
    asyncio.run(operator.passes.run(KEY))
    (attempt,) = store.list(Resource.ATTEMPT)
    assert attempt["status"]["phase"] == "Running"
