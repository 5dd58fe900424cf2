"""Enacting a plan sends requests in order, based on the versions read, and is safe to repeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from fake_api import Call, FakeApi
from kuberay_standin.objects import refer
from operator_bodies import (
    NAMESPACE,
    Body,
    make_attempt,
    make_pipeline,
    make_pod,
    spell_attempt,
    spell_labels,
)
from strandline_api.names import FINALIZER
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.cluster.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    TooMany,
    Unavailable,
)
from strandline_operator.model.plan import (
    Create,
    Delete,
    EventDraft,
    Grow,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import View
from strandline_operator.reconcile.caches.own_kinds import read_attempt, read_pipeline
from strandline_operator.reconcile.enact import PlanResult, enact, is_ours

TEXT = {"apiVersion": "v1", "kind": "ConfigMap"}


def look(api: FakeApi) -> View:
    """Return the fields of a view that enacting a plan needs."""
    body = api.store.get(Resource.PIPELINE, NAMESPACE, "corpus")
    assert body is not None
    attempts = map(read_attempt, api.store.list(Resource.ATTEMPT))
    return View(
        read_pipeline(body),
        tuple(attempt for attempt in attempts if attempt is not None),
    )


def carry_out(api: FakeApi, plan: PassPlan, view: View | None = None) -> PlanResult:
    return asyncio.run(enact(api, view or look(api), plan, 1_000_000.0))


def fail(error: ApiError, when: Callable[[Call], bool]) -> Callable[[Call], None]:
    def hook(call: Call) -> None:
        if when(call):
            raise error

    return hook


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    make_pipeline(api.store)
    return api


@pytest.fixture
def pipeline(api: FakeApi) -> Body:
    return api.store.list(Resource.PIPELINE)[0]


def spell_config(pipeline: Body, name: str = "corpus-1") -> Body:
    metadata = {
        "name": name,
        "labels": spell_labels(pipeline),
        "ownerReferences": [refer(pipeline)],
    }
    return {**TEXT, "metadata": metadata}


def test_statuses_come_first_then_actions_then_events(api: FakeApi, pipeline: Body) -> None:
    make_attempt(api.store, pipeline)
    plan = PassPlan(
        pipeline=PipelineStatus(attempt=1),
        attempts={"corpus-1": AttemptStatus(message="starts")},
        actions=(Create(Resource.CONFIG_MAP, spell_config(pipeline)), SetFinalizer(is_set=True)),
        events=(EventDraft("AttemptStarted", "it starts", attempt="corpus-1"),),
    )
    done = carry_out(api, plan)

    assert [(call.verb, call.resource) for call in api.calls] == [
        ("status", Resource.ATTEMPT),
        ("status", Resource.PIPELINE),
        ("create", Resource.CONFIG_MAP),
        ("patch", Resource.PIPELINE),
        ("create", Resource.EVENT),
    ]
    assert (done.is_written, done.is_stale, done.refusals, done.error) == (True, False, [], None)
    assert done.created == [Resource.CONFIG_MAP]
    stored = api.store.list(Resource.PIPELINE)[0]
    assert stored["status"]["attempt"] == 1
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert stored["spec"] == pipeline["spec"]


@pytest.mark.parametrize("resource", [Resource.ATTEMPT, Resource.PIPELINE])
def test_a_changed_status_stops_the_remaining_plan(
    api: FakeApi, pipeline: Body, resource: Resource
) -> None:
    make_attempt(api.store, pipeline)
    view = look(api)
    name = api.store.list(resource)[0]["metadata"]["name"]
    api.store.put_status(resource, NAMESPACE, name, {"message": "somebody else's"})
    plan = PassPlan(
        pipeline=PipelineStatus(attempt=1),
        attempts={"corpus-1": AttemptStatus(message="starts")},
        actions=(Create(Resource.CONFIG_MAP, spell_config(pipeline)),),
        events=(EventDraft("RunStarted", "it starts"),),
    )
    done = carry_out(api, plan, view)

    assert (done.is_written, done.is_stale) == (False, True)
    assert api.store.list(Resource.CONFIG_MAP) == []
    assert api.store.list(Resource.EVENT) == []


def test_a_new_pipeline_of_the_same_name_is_a_different_one(api: FakeApi) -> None:
    view = look(api)
    api.store.remove(Resource.PIPELINE, NAMESPACE, "corpus")
    assert carry_out(api, PassPlan(pipeline=PipelineStatus()), view).is_stale
    make_pipeline(api.store)
    assert carry_out(api, PassPlan(pipeline=PipelineStatus()), view).is_stale
    assert "status" not in api.store.list(Resource.PIPELINE)[0]


def test_a_rejected_status_is_reported_and_stops_the_plan(api: FakeApi, pipeline: Body) -> None:
    api.before.append(fail(Invalid(422, "Invalid", "too long"), lambda call: call.verb == "status"))
    plan = PassPlan(pipeline=PipelineStatus(), actions=(SetFinalizer(is_set=True),))
    done = carry_out(api, plan)

    assert (done.is_written, done.is_stale) == (False, False)
    (refusal,) = done.refusals
    assert (refusal.what, refusal.name) == ("curationpipelines.strandline.dev", "corpus/status")
    assert (refusal.status, refusal.message) == (422, "too long")
    assert len(api.calls) == 1


def test_an_existing_own_object_counts_as_made(api: FakeApi, pipeline: Body) -> None:
    plan = PassPlan(actions=(Create(Resource.ATTEMPT, spell_attempt(pipeline)),))
    assert carry_out(api, plan).created == [Resource.ATTEMPT]
    done = carry_out(api, plan)
    assert (done.created, done.refusals, done.error) == ([], [], None)
    assert len(api.store.list(Resource.ATTEMPT)) == 1


def test_an_object_of_another_owner_is_reported_as_refused(api: FakeApi, pipeline: Body) -> None:
    other = make_pipeline(api.store, "other")
    api.store.create(Resource.CONFIG_MAP, NAMESPACE, spell_config(other))
    plan = PassPlan(
        actions=(
            Create(Resource.CONFIG_MAP, spell_config(pipeline)),
            Create(Resource.CONFIG_MAP, spell_config(pipeline, "corpus-2")),
            SetFinalizer(is_set=True),
        )
    )
    done = carry_out(api, plan)

    (refusal,) = done.refusals
    assert (refusal.what, refusal.name, refusal.status) == ("configmaps", "corpus-1", 409)
    assert refusal.message == "corpus-1 exists and belongs to another owner"
    # The operator creates no further object, because later objects may depend on the refused
    # object.
    assert len(api.store.list(Resource.CONFIG_MAP)) == 1
    assert api.store.list(Resource.PIPELINE)[0]["metadata"]["finalizers"] == [FINALIZER]


def test_an_object_with_other_content_does_not_count_as_made(api: FakeApi, pipeline: Body) -> None:
    """Otherwise the driver could run with another owner's content."""

    def exact(manifest: Body) -> Create:
        return Create(Resource.CONFIG_MAP, manifest, is_exact=True)

    api.store.create(Resource.CONFIG_MAP, NAMESPACE, {**spell_config(pipeline), "data": {"a": "1"}})
    wanted = {**spell_config(pipeline), "data": {"a": "2"}}
    (refusal,) = carry_out(api, PassPlan(actions=(exact(wanted),))).refusals
    assert refusal.message == "corpus-1 exists with different content; delete it"
    wanted["data"] = {"a": "1"}
    assert carry_out(api, PassPlan(actions=(exact(wanted),))).refusals == []


def test_a_strict_creation_is_rejected_for_unknown_fields(api: FakeApi, pipeline: Body) -> None:
    api.unknown = {"authOptions"}
    body = {**spell_config(pipeline), "spec": {"authOptions": {"mode": "token"}}}
    done = carry_out(api, PassPlan(actions=(Create(Resource.CONFIG_MAP, body, is_strict=True),)))
    (refusal,) = done.refusals
    assert (refusal.status, "spec.authOptions" in refusal.message) == (400, True)
    assert api.store.list(Resource.CONFIG_MAP) == []

    carry_out(api, PassPlan(actions=(Create(Resource.CONFIG_MAP, body),)))
    (made,) = api.store.list(Resource.CONFIG_MAP)
    assert made["spec"] == {}


def test_an_object_being_deleted_is_awaited(api: FakeApi, pipeline: Body) -> None:
    api.store.patient.add(Resource.CONFIG_MAP)
    made = api.store.create(Resource.CONFIG_MAP, NAMESPACE, spell_config(pipeline))
    api.store.delete(Resource.CONFIG_MAP, NAMESPACE, "corpus-1", made["metadata"]["uid"])
    done = carry_out(api, PassPlan(actions=(Create(Resource.CONFIG_MAP, spell_config(pipeline)),)))
    assert (done.is_stale, done.error) == (True, None)
    assert done.refusals == []


def test_a_claim_that_outlived_its_pipeline_is_taken_over(pipeline: Body) -> None:
    labels = spell_labels(pipeline)
    manifest = {"metadata": {"name": "corpus-ledger", "labels": labels}}
    old = {
        "metadata": {
            "name": "corpus-ledger",
            "labels": {**labels, "strandline.dev/pipeline-uid": "x"},
        }
    }
    assert is_ours(manifest, old)
    assert not is_ours(manifest, {"metadata": {"name": "corpus-ledger"}})
    assert not is_ours(
        manifest, {"metadata": {**old["metadata"], "ownerReferences": [refer(pipeline)]}}
    )
    foreign = {**labels, "strandline.dev/pipeline": "other"}
    assert not is_ours(manifest, {"metadata": {"labels": foreign}})
    assert not is_ours(
        manifest, {"metadata": {"labels": {**labels, "app.kubernetes.io/managed-by": "you"}}}
    )


def test_a_claims_growth_is_requested_and_a_refusal_recorded(api: FakeApi, pipeline: Body) -> None:
    body = {"metadata": {"name": "corpus-ledger", "uid": "c"}, "spec": {"volumeName": "v"}}
    api.store.create(Resource.CLAIM, NAMESPACE, body)
    plan = PassPlan(actions=(Grow("corpus-ledger", "c", "20Gi"), Grow("gone", "d", "20Gi")))
    done = carry_out(api, plan)
    assert (done.refusals, done.error, done.is_stale) == ([], None, False)
    claim = api.store.get(Resource.CLAIM, NAMESPACE, "corpus-ledger") or {}
    assert claim["spec"] == {
        "volumeName": "v",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    api.before.append(fail(Forbidden(403, "Forbidden", "no"), lambda call: call.verb == "patch"))
    (refusal,) = carry_out(api, plan).refusals[:1]
    assert (refusal.what, refusal.name, refusal.message) == (Resource.CLAIM, "corpus-ledger", "no")


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", "exceeded quota"),
        NotFound(404, "", "404 page not found"),
        Invalid(422, "Invalid", "bad"),
        ApiError(405, "", "not so"),
    ],
)
def test_a_refusal_is_recorded_and_the_plan_continues(
    api: FakeApi, pipeline: Body, error: ApiError
) -> None:
    pod = make_pod(api.store, pipeline, "head", "head")
    api.before.append(fail(error, lambda call: call.resource is Resource.CONFIG_MAP))
    plan = PassPlan(
        pipeline=PipelineStatus(),
        actions=(
            Create(Resource.CONFIG_MAP, spell_config(pipeline)),
            Delete(Resource.POD, "head", pod["metadata"]["uid"]),
        ),
        events=(EventDraft("Blocked", "it is blocked", is_warning=True),),
    )
    done = carry_out(api, plan)

    assert [(refusal.name, refusal.status, refusal.message) for refusal in done.refusals] == [
        ("corpus-1", error.status, error.message)
    ]
    assert (done.is_written, done.error) == (True, None)
    assert api.store.list(Resource.POD) == []
    assert len(api.store.list(Resource.EVENT)) == 1


@pytest.mark.parametrize(
    "error", [TooMany(429, "", "slow down", 3.0), Unavailable(0, "", "no answer")]
)
def test_a_transient_error_ends_the_actions_but_not_the_events(
    api: FakeApi, pipeline: Body, error: ApiError
) -> None:
    api.before.append(fail(error, lambda call: call.resource is Resource.CONFIG_MAP))
    plan = PassPlan(
        pipeline=PipelineStatus(),
        actions=(Create(Resource.CONFIG_MAP, spell_config(pipeline)), SetFinalizer(is_set=True)),
        events=(EventDraft("RunStarted", "it starts"),),
    )
    done = carry_out(api, plan)

    assert done.error is error
    assert done.is_written
    assert [call.verb for call in api.calls] == ["status", "create", "create"]


def test_a_status_that_can_not_be_written_now_ends_the_pass(api: FakeApi) -> None:
    api.before.append(fail(Unavailable(500, "", "sorry"), lambda call: call.verb == "status"))
    done = carry_out(api, PassPlan(pipeline=PipelineStatus()))
    assert (done.is_written, type(done.error)) == (False, Unavailable)


def test_only_the_very_object_is_deleted(api: FakeApi, pipeline: Body) -> None:
    pod = make_pod(api.store, pipeline, "head", "head")
    other = Delete(Resource.POD, "head", "another-uid")
    missing = Delete(Resource.POD, "gone", "uid")
    assert carry_out(api, PassPlan(actions=(other, missing))) == PlanResult()
    assert len(api.store.list(Resource.POD)) == 1

    api.store.patient.add(Resource.POD)
    uid = pod["metadata"]["uid"]
    carry_out(api, PassPlan(actions=(Delete(Resource.POD, "head", uid),)))
    assert "deletionTimestamp" in api.store.list(Resource.POD)[0]["metadata"]
    carry_out(api, PassPlan(actions=(Delete(Resource.POD, "head", uid, grace=0),)))
    assert api.store.list(Resource.POD) == []


def test_finalizers_of_others_are_kept(api: FakeApi) -> None:
    def put(*names: str) -> None:
        metadata = {"finalizers": list(names)}
        api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"metadata": metadata})

    def read() -> Any:
        return api.store.list(Resource.PIPELINE)[0]["metadata"]["finalizers"]

    put("theirs")
    carry_out(api, PassPlan(actions=(SetFinalizer(is_set=True),)))
    assert read() == ["theirs", FINALIZER]
    carry_out(api, PassPlan(actions=(SetFinalizer(is_set=False),)))
    assert read() == ["theirs"]

    view = look(api)
    put("theirs", "new")
    done = carry_out(api, PassPlan(actions=(SetFinalizer(is_set=True),)), view)
    assert (done.is_stale, done.error) == (True, None)
    assert read() == ["theirs", "new"]


def test_removing_the_finalizer_of_a_deleted_pipeline_succeeds(api: FakeApi) -> None:
    view = look(api)
    api.store.remove(Resource.PIPELINE, NAMESPACE, "corpus")
    assert carry_out(api, PassPlan(actions=(SetFinalizer(is_set=False),)), view) == PlanResult()


def test_a_repeated_event_is_created_once(api: FakeApi, pipeline: Body) -> None:
    make_attempt(api.store, pipeline)
    plan = PassPlan(
        events=(
            EventDraft("RunStarted", "x" * 2000),
            EventDraft("AttemptFailed", "it failed", is_warning=True, attempt="corpus-1"),
            EventDraft("AttemptFailed", "nobody", attempt="corpus-9"),
        )
    )
    carry_out(api, plan)
    carry_out(api, plan)

    first, second = api.store.list(Resource.EVENT)
    told = sorted((first, second), key=lambda one: str(one["reason"]))
    assert [one["reason"] for one in told] == ["AttemptFailed", "RunStarted"]
    assert [one["type"] for one in told] == ["Warning", "Normal"]
    assert [one["involvedObject"]["name"] for one in told] == ["corpus-1", "corpus"]
    assert len(told[1]["message"]) == 1024
    assert told[0]["metadata"]["name"].startswith("corpus-1.")

    # After an edit of the spec, the same message counts as a new transition.
    api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"spec": {"suspend": True}})
    carry_out(api, plan)
    assert len(api.store.list(Resource.EVENT)) == 4


def test_failed_events_stop_nothing(api: FakeApi) -> None:
    refused = Forbidden(403, "Forbidden", "no events")
    api.before.append(fail(refused, lambda call: call.resource is Resource.EVENT))
    done = carry_out(
        api, PassPlan(events=(EventDraft("RunStarted", "a"), EventDraft("RunStarted", "b")))
    )
    assert done == PlanResult()
    assert len(api.calls) == 2


def test_every_dispatch_is_logged_before_it_happens(
    api: FakeApi, pipeline: Body, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    create = Create(Resource.ATTEMPT, spell_attempt(pipeline))
    api.before.append(fail(Unavailable(500, "", "sorry"), lambda call: call.verb == "create"))
    carry_out(api, PassPlan(actions=(create,), audit=("dispatch corpus-1",)))
    assert [record.getMessage() for record in caplog.records] == ["dispatch corpus-1"]
    assert caplog.records[0].__dict__["pipeline"] == "team/corpus"
    assert caplog.records[0].__dict__["attempt"] == "corpus-1"


def test_log_lines_name_their_subject(
    api: FakeApi, pipeline: Body, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    attempt = make_attempt(api.store, pipeline, 3)
    metadata = {
        "name": "corpus-3",
        "labels": spell_labels(pipeline, 3),
        "ownerReferences": [refer(attempt)],
    }
    rayjob = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata}
    carry_out(api, PassPlan(actions=(Create(Resource.RAYJOB, rayjob),)))
    (line,) = caplog.records
    assert line.getMessage() == "created rayjobs.ray.io corpus-3"
    about = [line.__dict__[key] for key in ("pipeline", "attempt", "rayjob")]
    assert about == ["team/corpus", "corpus-3", "corpus-3"]
