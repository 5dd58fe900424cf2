"""Passes that read a cache send few requests and decide nothing permanent from a stale view."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from fake_api import FakeApi
from late_cluster import LateCluster
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
from strandline_api.names import FINALIZER
from strandline_api.objects.attempt import (
    AttemptOutcome,
    AttemptStatus,
    ConfigRecord,
    PipelineReference,
)
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.usage.retry_counts import RetryCounts
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Meta, RayJob
from strandline_operator.model.plan import (
    Action,
    Create,
    Delete,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import AttemptObject, View
from strandline_operator.reconcile.caches.own_kinds import read_attempt, read_pipeline
from strandline_operator.reconcile.passes import Recheck, choose_recheck, is_unchecked


@settings(max_examples=scale_examples(60))
@given(st.integers(min_value=0), st.sampled_from([0.0, 0.5]))
# Examples with which an implementation failed that trusted only its watches.
@example(7, 0.0)
@example(31, 0.0)
def test_law_a_stale_cache_never_makes_a_second_attempt(seed: int, lateness: float) -> None:
    cluster = LateCluster(seed, lateness)
    cluster.play(300)
    for resource in (Resource.ATTEMPT, Resource.RAYJOB):
        assert set(cluster.count_made(resource).values()) <= {1}
    status = PipelineStatus.parse(cluster.store.list(Resource.PIPELINE)[0].get("status") or {})
    numbers = [past.number for past in status.attempts]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(cluster.count_made(Resource.ATTEMPT)) <= len(numbers) + 1


def test_the_law_covers_runs_with_several_attempts_and_restarts() -> None:
    clusters = [LateCluster(seed, 0.5) for seed in range(8)]
    for cluster in clusters:
        cluster.play(300)
    assert max(len(cluster.count_made(Resource.RAYJOB)) for cluster in clusters) >= 3
    assert sum(cluster.restarts for cluster in clusters) >= 3


# --- Second reads from the server


STATUS = AttemptStatus(ray_job=PipelineReference(name="corpus-1", uid="job"))
OVER = STATUS.model_copy(update={"end_time": 90.0})


def make_view(*, job: str = "Running", deleted: bool = False, **status: Any) -> View:
    api = FakeApi()
    body = make_pipeline(api.store)
    attempt = read_attempt(make_attempt(api.store, body))
    assert attempt is not None
    pipeline = read_pipeline(body)
    known = PipelineStatus(retries=RetryCounts(through=0), **status)
    meta = replace(pipeline.meta, is_deleting=deleted)
    rayjob = RayJob(
        Meta("corpus-1", NAMESPACE, "job"), job, "", "", "", "", None, is_suspended=False
    )
    attempt = AttemptObject(attempt.meta, attempt.spec, STATUS)
    return View(replace(pipeline, meta=meta, status=known), (attempt,), rayjobs=(rayjob,))


def make(resource: Resource) -> Create:
    return Create(resource, {"metadata": {"name": "corpus-1"}})


def write(status: AttemptStatus) -> PassPlan:
    return PassPlan(attempts={"corpus-1": status})


@pytest.mark.parametrize(
    ("action", "is_deleted", "expected"),
    [
        (make(Resource.ATTEMPT), False, Recheck.NOTHING),
        (Delete(Resource.POD, "head", "uid"), False, Recheck.NOTHING),
        (SetFinalizer(is_set=False), True, Recheck.SIBLINGS),
        (SetFinalizer(is_set=False), False, Recheck.NOTHING),
        (SetFinalizer(is_set=True), True, Recheck.NOTHING),
    ],
)
def test_releasing_pods_needs_a_read_from_the_server(
    action: Action, is_deleted: bool, expected: Recheck
) -> None:
    view = make_view(deleted=is_deleted)
    assert choose_recheck(view, PassPlan(actions=(action,))) is expected


FROZEN = OVER.model_copy(update={"is_frozen": True})
UNLAUNCHED = FROZEN.model_copy(update={"ray_job": None})
LAUNCHED = AttemptStatus(config=ConfigRecord(name="corpus-2"))


@pytest.mark.parametrize(
    ("previous", "newest", "expected"),
    [
        (FROZEN, AttemptStatus(), Recheck.NOTHING),
        # An earlier launch of the same attempt may have made objects.
        (FROZEN, LAUNCHED, Recheck.SIBLINGS),
        (OVER, AttemptStatus(), Recheck.SIBLINGS),
        # Nothing was read before its launch, which never happened.
        (UNLAUNCHED, AttemptStatus(), Recheck.SIBLINGS),
        # A user deleted the attempt, whose pods may remain.
        (None, AttemptStatus(), Recheck.SIBLINGS),
    ],
)
def test_a_launch_needs_a_read_unless_statuses_prove_that_no_pods_exist(
    previous: AttemptStatus | None, newest: AttemptStatus, expected: Recheck
) -> None:
    view = make_view()
    (first,) = view.attempts
    spec = first.spec.model_copy(update={"number": 2, "previous": 1})
    former = () if previous is None else (replace(first, status=previous),)
    attempts = (*former, AttemptObject(first.meta, spec, newest))
    plan = PassPlan(actions=(make(Resource.RAYJOB),))
    assert choose_recheck(replace(view, attempts=attempts), plan) is expected


def test_a_first_launch_needs_no_read() -> None:
    view = make_view()
    unlaunched = (replace(view.attempts[0], status=AttemptStatus()),)
    plan = PassPlan(actions=(make(Resource.RAYJOB),))
    assert choose_recheck(replace(view, attempts=unlaunched), plan) is Recheck.NOTHING


@pytest.mark.parametrize(
    ("status", "job", "expected"),
    [
        (STATUS.model_copy(update={"message": "it runs"}), "Running", Recheck.NOTHING),
        (OVER, "Running", Recheck.ALL),
        (OVER, "Complete", Recheck.NOTHING),
        (OVER.model_copy(update={"ray_job": None}), "Complete", Recheck.ALL),
        (
            OVER.model_copy(update={"outcome": AttemptOutcome(exit_code=0)}),
            "Running",
            Recheck.NOTHING,
        ),
        (OVER.model_copy(update={"is_frozen": True}), "Complete", Recheck.SIBLINGS),
    ],
)
def test_an_observed_end_needs_no_recheck(
    status: AttemptStatus, job: str, expected: Recheck
) -> None:
    assert choose_recheck(make_view(job=job), write(status)) is expected


def test_a_recorded_end_needs_no_recheck() -> None:
    view = make_view()
    ended = (replace(view.attempts[0], status=OVER),)
    later = OVER.model_copy(update={"message": "it ended"})
    assert choose_recheck(replace(view, attempts=ended), write(later)) is Recheck.NOTHING


def test_an_unobserved_attempt_counts_only_after_a_recheck() -> None:
    view = make_view()
    counted = PipelineStatus(retries=RetryCounts(through=1))
    assert choose_recheck(view, PassPlan(pipeline=counted)) is Recheck.ALL
    frozen = OVER.model_copy(update={"is_frozen": True})
    both = PassPlan(pipeline=counted, attempts={"corpus-1": frozen})
    assert choose_recheck(make_view(job="Complete"), both) is Recheck.SIBLINGS
    before = replace(view, attempts=(replace(view.attempts[0], status=frozen),))
    assert choose_recheck(before, PassPlan(pipeline=counted)) is Recheck.NOTHING
    begun = PipelineStatus(retries=RetryCounts(through=0))
    assert choose_recheck(view, PassPlan(pipeline=begun)) is Recheck.NOTHING


def test_a_creation_without_a_status_write_is_unchecked() -> None:
    create = make(Resource.ATTEMPT)
    assert is_unchecked(PassPlan(actions=(create,)))
    assert not is_unchecked(PassPlan(actions=(create,), pipeline=PipelineStatus()))
    assert not is_unchecked(PassPlan(actions=(SetFinalizer(is_set=True),)))


# --- The cost of a pass, and the effects of a stale view


class Scene:
    """An operator whose watches are current at the start."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.api.store.patient.add(Resource.POD)
        self.pipeline = make_pipeline(self.api.store, retry={"jitter": "none"})
        self.operator = Operator(self.api, Limits())
        self.operator.feed.follow()

    def pass_once(self) -> Any:
        return asyncio.run(self.operator.passes.run(KEY))

    def settle(self) -> None:
        """Run passes until no writes follow, although no watch delivers events."""
        for _ in range(20):
            before = len(self.api.writes)
            self.pass_once()
            if len(self.api.writes) == before:
                return
        raise AssertionError("it does not come to rest")

    def count(self, verb: str, resource: Resource) -> int:
        return sum((call.verb, call.resource) == (verb, resource) for call in self.api.calls)


def test_an_attempt_is_launched_without_watch_events_for_its_objects() -> None:
    scene = Scene()
    scene.settle()
    assert len(scene.api.store.list(Resource.RAYJOB)) == 1
    assert scene.count("create", Resource.ATTEMPT) == 1
    assert scene.count("create", Resource.RAYJOB) == 1
    lists = [call.resource for call in scene.api.calls if call.verb == "list"]
    rules = [Resource.QUOTA, Resource.LIMIT_RANGE]  # rules of the namespace, read at intervals
    assert lists == rules
    assert scene.count("get", Resource.PIPELINE) <= 1


def test_a_pass_over_a_running_attempt_reads_no_objects_from_the_server() -> None:
    scene = Scene()
    scene.settle()
    scene.api.calls.clear()
    scene.operator.feed.follow()
    scene.pass_once()
    kinds = set(scene.operator.feed.kinds)
    assert not [call for call in scene.api.calls if call.resource in kinds]


def test_a_pod_missing_from_the_cache_delays_the_next_attempt() -> None:
    scene = Scene()
    scene.settle()
    store, feed = scene.api.store, scene.operator.feed
    feed.follow()
    store.remove(Resource.RAYJOB, NAMESPACE, "corpus-1")
    make_pod(store, scene.pipeline, "late", "head")
    feed.stream(Resource.RAYJOB)
    for _ in range(8):
        store.time += 60.0
        scene.settle()
    (attempt,) = store.list(Resource.ATTEMPT)
    assert attempt["status"]["endTime"]
    assert not attempt["status"].get("isFrozen")
    store.remove(Resource.POD, NAMESPACE, "late")
    store.time += 60.0
    scene.settle()
    assert store.list(Resource.ATTEMPT)[0]["status"]["isFrozen"]


def test_a_pod_missing_from_the_cache_delays_the_launch_after_a_deleted_attempt() -> None:
    scene = Scene()
    scene.settle()
    store, feed = scene.api.store, scene.operator.feed
    feed.follow()
    make_pod(store, scene.pipeline, "late", "head")
    for resource in (Resource.RAYJOB, Resource.ATTEMPT):
        store.remove(resource, NAMESPACE, "corpus-1")
        feed.stream(resource)
    for _ in range(8):
        store.time += 60.0
        scene.settle()
    assert [each["metadata"]["name"] for each in store.list(Resource.ATTEMPT)] == ["corpus-2"]
    assert store.list(Resource.RAYJOB) == []
    store.remove(Resource.POD, NAMESPACE, "late")
    store.time += 60.0
    scene.settle()
    assert [each["metadata"]["name"] for each in store.list(Resource.RAYJOB)] == ["corpus-2"]


def test_an_outdated_pipeline_makes_no_attempt() -> None:
    scene = Scene()
    while not scene.api.store.list(Resource.PIPELINE)[0]["metadata"].get("finalizers"):
        scene.pass_once()
    edited = {"spec": {"suspend": True}}
    scene.api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", edited)
    for _ in range(3):
        scene.pass_once()
    assert scene.api.store.list(Resource.ATTEMPT) == []
    scene.operator.feed.follow()
    scene.settle()
    assert scene.api.store.list(Resource.ATTEMPT) == []


def test_a_due_retry_is_not_made_if_the_pipeline_was_suspended_meanwhile() -> None:
    scene = Scene()
    store = scene.api.store
    make_attempt(store, scene.pipeline)
    due = {"nextAttemptTime": "1970-01-12T13:46:41Z", "retryTrigger": "Retry", "attempt": 1}
    status = {"run": "first", "answeredRun": "first", "retries": {"through": 1}, **due}
    ended = {"isFrozen": True, "endTime": "1970-01-12T13:46:39Z", "cause": "Killed"}
    store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", ended)
    store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", status)
    scene.operator.feed.follow()
    scene.settle()
    scene.operator.feed.follow()
    scene.settle()
    store.time += 60.0
    store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"spec": {"suspend": True}})
    scene.pass_once()
    assert scene.count("create", Resource.ATTEMPT) == 0
    store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"spec": {"suspend": False}})
    scene.operator.feed.follow()
    scene.pass_once()
    assert scene.count("create", Resource.ATTEMPT) == 1


def test_a_pipeline_deleted_meanwhile_makes_no_attempt() -> None:
    scene = Scene()
    store = scene.api.store
    while not store.list(Resource.PIPELINE)[0]["metadata"].get("finalizers"):
        scene.pass_once()
    store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"metadata": {"finalizers": []}})
    store.remove(Resource.PIPELINE, NAMESPACE, "corpus")
    assert scene.pass_once().again
    assert store.list(Resource.ATTEMPT) == []
    scene.operator.feed.follow()
    assert not scene.pass_once().again


def test_an_attempt_not_yet_in_the_cache_is_not_missing() -> None:
    """Another operator has just made the attempt, and this operator starts."""
    scene = Scene()
    store = scene.api.store
    store.create(Resource.ATTEMPT, NAMESPACE, spell_attempt(scene.pipeline))
    status = {"attempt": 1, "run": "first", "answeredRun": "first", "retries": {"through": 0}}
    store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", status)
    scene.operator.feed.stream(Resource.PIPELINE)
    scene.pass_once()
    after = store.list(Resource.PIPELINE)[0]["status"]
    assert after["retries"]["through"] == 0
    assert after.get("nextAttemptTime") is None


def test_a_deleted_pipeline_waits_for_a_pod_missing_from_the_cache() -> None:
    scene = Scene()
    store = scene.api.store
    scene.settle()
    scene.operator.feed.follow()
    store.remove(Resource.RAYJOB, NAMESPACE, "corpus-1")
    store.delete(Resource.PIPELINE, NAMESPACE, "corpus")
    scene.operator.feed.follow()
    make_pod(store, scene.pipeline, "late", "head")
    scene.settle()
    assert FINALIZER in store.list(Resource.PIPELINE)[0]["metadata"]["finalizers"]
    store.remove(Resource.POD, NAMESPACE, "late")
    scene.settle()
    assert store.list(Resource.PIPELINE) == []


def test_pods_of_a_namesake_are_found_in_the_cache() -> None:
    scene = Scene()
    former = {**scene.pipeline, "metadata": {**scene.pipeline["metadata"], "uid": "former"}}
    make_pod(scene.api.store, former, "theirs", "head")
    attempt = {"metadata": {"name": "corpus-9", "uid": "a"}, "spec": {"number": 9}, **KIND}
    make_rayjob(scene.api.store, former, attempt)
    scene.operator.feed.follow()
    scene.settle()
    (condition,) = [
        each
        for each in scene.api.store.list(Resource.PIPELINE)[0]["status"]["conditions"]
        if each["type"] == "Succeeded"
    ]
    assert condition["reason"] == "NamesakeRuns"
    assert "pod theirs" in condition["message"]
    assert scene.count("list", Resource.POD) == 0


KIND = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationAttempt"}


def test_a_lost_watch_makes_passes_read_from_the_server() -> None:
    scene = Scene()
    scene.operator.feed.disconnect()
    scene.pass_once()
    assert scene.count("get", Resource.PIPELINE) == 1
    assert scene.count("list", Resource.ATTEMPT) == 1
