"""The reads of a pass, from a server with any content. Malformed objects never fail a pass."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any

import pytest

from fake_api import Call, FakeApi
from kuberay_standin.objects import refer
from operator_bodies import (
    KEY,
    NAMESPACE,
    RAY,
    Body,
    make_attempt,
    make_pipeline,
    make_pod,
    make_rayjob,
    spell_labels,
)
from pipeline_documents import SMALLEST
from stored_documents import plant_unknown, store
from strandline_api.documents.documents import parse_pipeline
from strandline_api.schema.crd import pipeline_definition
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.cluster.errors import ApiError, Forbidden, TooMany, Unavailable
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal, Turn, View
from strandline_operator.reconcile.caches.claims import (
    KEEP_SECONDS,
    RESIZE_SECONDS,
    UNBOUND_SECONDS,
)
from strandline_operator.reconcile.caches.cluster_cache import ClusterCache
from strandline_operator.reconcile.caches.namespaces.defaults import NamespaceDefaults
from strandline_operator.reconcile.caches.own_kinds import read_pipeline
from strandline_operator.reconcile.caches.pods import PodMemory, PodOwner
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.observe import (
    PassInputs,
    PassObservation,
    find_pipeline,
    observe,
)

NOW = 1_000_000.0


def make_senses(**layer: Any) -> PassInputs:
    return PassInputs(
        pods=PodMemory(),
        drivers=DriverTalk(Limits()),
        defaults=NamespaceDefaults("strandline-defaults"),
        layer=RetryPolicy(**layer),
    )


def try_to_look(
    api: FakeApi, inputs: PassInputs | None = None, **more: Any
) -> PassObservation | None:
    async def run() -> PassObservation | None:
        pipeline = await find_pipeline(api, KEY, ClusterCache())
        if pipeline is None:
            return None
        return await observe(api, pipeline, inputs or make_senses(), NOW, **more)

    return asyncio.run(run())


def look(api: FakeApi, inputs: PassInputs | None = None, **more: Any) -> View:
    seen = try_to_look(api, inputs, **more)
    assert seen is not None
    return seen.view


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def pipeline(api: FakeApi) -> Body:
    return make_pipeline(api.store, retry={"maxRetries": 7})


def test_a_deleted_pipeline_is_none(api: FakeApi) -> None:
    assert try_to_look(api) is None
    assert len(api.calls) == 1


def test_only_objects_with_the_pipelines_uid_are_read(api: FakeApi, pipeline: Body) -> None:
    other = make_pipeline(api.store, "other")
    for number in (10, 2):
        make_attempt(api.store, pipeline, number)
    make_attempt(api.store, other)
    attempt = api.store.get(Resource.ATTEMPT, NAMESPACE, "corpus-10") or {}
    make_rayjob(api.store, pipeline, attempt, {"jobStatus": "RUNNING"})
    make_pod(api.store, pipeline, "head", "head", number=10)
    make_pod(api.store, other, "theirs", "head")
    claim = {
        "apiVersion": "v1",
        "metadata": {"name": "corpus-ledger"},
        "status": {"phase": "Bound"},
    }
    api.store.create(Resource.CLAIM, NAMESPACE, claim)

    view = look(api, turn=Turn(is_open=False))

    assert view.pipeline.spec is not None
    assert view.pipeline.meta.uid == pipeline["metadata"]["uid"]
    assert [one.spec.number for one in view.attempts] == [2, 10]
    assert [(rayjob.meta.name, rayjob.job) for rayjob in view.rayjobs] == [("corpus-10", "RUNNING")]
    assert [pod.meta.name for pod in view.pods] == ["head"]
    assert view.claim is not None
    assert view.claim.phase == "Bound"
    assert (view.has_kuberay, view.turn.is_open) == (True, False)


def test_the_drivers_manifest_omits_the_operators_fields(api: FakeApi, pipeline: Body) -> None:
    metadata = {"labels": {"team": "blue"}, "annotations": {"a": "b"}}
    api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", {"metadata": metadata})
    api.store.put_status(
        Resource.PIPELINE, NAMESPACE, "corpus", {"observedGeneration": 1, "attempt": 3}
    )
    view = look(api)
    assert view.pipeline.has_status
    assert view.pipeline.status.attempt == 3
    assert view.pipeline.manifest == {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus", "namespace": "team", "labels": {"team": "blue"}},
        "spec": pipeline["spec"],
    }


def test_an_invalid_spec_is_reported_and_the_rest_is_read(api: FakeApi) -> None:
    pipeline = make_pipeline(api.store, stagess=[], onChange="Maybe")
    make_attempt(api.store, pipeline)
    view = look(api)
    assert view.pipeline.spec is None
    assert view.pipeline.problems == (
        "spec.onChange: must be 'Fail', 'Restart', 'Continue' or 'Redo', not 'Maybe'",
    )
    assert len(view.attempts) == 1


def test_fields_of_newer_definitions_are_ignored_and_reported_once(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    grown, planted = plant_unknown(store(SMALLEST, pipeline_definition()), pipeline_definition())
    body = make_pipeline(api.store, **grown["spec"])
    seen = None
    for _ in range(3):
        seen = read_pipeline(body, seen)
    assert seen is not None
    assert seen.spec == parse_pipeline(SMALLEST).spec
    assert (seen.problems, set(seen.unknown)) == ((), planted)
    (line,) = caplog.records
    assert line.getMessage().startswith("this operator does not support, and ignores, spec.")
    assert vars(line)["pipeline"] == "team/corpus"
    body["spec"] = {**SMALLEST["spec"], "tomorrow": 1}
    assert read_pipeline(body, seen).unknown == ("spec.tomorrow",)
    assert len(caplog.records) == 2


ODD: list[Any] = [None, 7, "text", [], {}, {"conditions": 3, "phase": "Wondering", "new": {"a": 1}}]


@pytest.mark.parametrize("odd", ODD)
def test_odd_objects_are_read_as_far_as_possible(api: FakeApi, pipeline: Body, odd: Any) -> None:
    attempt = make_attempt(api.store, pipeline)
    for resource in (Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD):
        labels = spell_labels(pipeline, 1)
        body = {"apiVersion": RAY, "metadata": {"name": "odd", "labels": labels}, "spec": odd}
        api.store.create(resource, NAMESPACE, body)
        api.store.put_status(resource, NAMESPACE, "odd", odd)
    for name, resource in (("corpus", Resource.PIPELINE), ("corpus-1", Resource.ATTEMPT)):
        api.store.put_status(resource, NAMESPACE, name, odd)
    stray = {"metadata": {"name": "stray", "labels": spell_labels(pipeline)}, "spec": odd}
    stray["metadata"]["ownerReferences"] = [refer(pipeline)]
    api.store.create(Resource.ATTEMPT, NAMESPACE, stray)

    view = look(api)

    assert [one.meta.name for one in view.attempts] == [attempt["metadata"]["name"]]
    assert [len(view.rayjobs), len(view.rayclusters), len(view.pods)] == [1, 1, 1]
    assert not view.pipeline.has_status


def test_a_foreign_attempt_does_not_count(api: FakeApi, pipeline: Body) -> None:
    attempt = make_attempt(api.store, pipeline)
    attempt["metadata"]["ownerReferences"] = [refer(make_pipeline(api.store, "other"))]
    api.store.objects[Resource.ATTEMPT, NAMESPACE, "corpus-1"] = attempt
    assert look(api).attempts == ()


def test_without_kuberay_the_rest_is_read(api: FakeApi, pipeline: Body) -> None:
    api.unserved |= {Resource.RAYJOB, Resource.RAYCLUSTER}
    make_attempt(api.store, pipeline)
    view = look(api)
    assert not view.has_kuberay
    assert (view.rayjobs, view.rayclusters, len(view.attempts)) == ((), (), 1)


@pytest.mark.parametrize(
    "resource",
    [Resource.PIPELINE, Resource.ATTEMPT, Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD],
)
@pytest.mark.parametrize("error", [TooMany(429, "", "no"), Unavailable(500, "", "sorry")])
def test_an_unreadable_object_never_counts_as_gone(
    api: FakeApi, pipeline: Body, resource: Resource, error: ApiError
) -> None:
    def refuse(call: Any) -> None:
        if call.resource is resource:
            raise error

    api.before.append(refuse)
    with pytest.raises(type(error)):
        look(api)


def test_layers_of_the_retry_policy_are_merged(api: FakeApi, pipeline: Body) -> None:
    data = {"retry": "maxRetries: 9\ndelay: 5s"}
    defaults = {"metadata": {"name": "strandline-defaults"}, "data": data}
    api.store.create(Resource.CONFIG_MAP, NAMESPACE, defaults)
    policy = look(api, make_senses(delay="9s", multiplier=4.0)).policy
    assert (policy.max_retries, policy.delay, policy.multiplier) == (7, "5s", 4.0)


def test_refusals_of_the_last_pass_and_broken_defaults_are_passed_on(
    api: FakeApi, pipeline: Body
) -> None:
    broken = {"metadata": {"name": "strandline-defaults"}, "data": {"retry": "["}}
    api.store.create(Resource.CONFIG_MAP, NAMESPACE, broken)
    refusal = Refusal("pods", "a", 403, "no")
    view = look(api, refusals=(refusal,))
    assert view.refusals == (refusal,)
    assert view.defaults_problem.startswith(
        "ConfigMap strandline-defaults: retry: this is not YAML"
    )


def test_the_named_claim_is_read(api: FakeApi) -> None:
    make_pipeline(api.store, storage={"ledger": {"claimName": "mine"}})
    api.store.create(Resource.CLAIM, NAMESPACE, {"metadata": {"name": "mine"}})
    claim = look(api).claim
    assert claim is not None
    assert claim.meta.name == "mine"


def test_deleted_pods_appear_in_their_last_state(api: FakeApi, pipeline: Body) -> None:
    inputs = make_senses()
    for name in ("stays", "went", "just-went"):
        body = make_pod(api.store, pipeline, name, "worker")
        inputs.pods.note(Observation(Pod.read(body), is_gone=name == "went"))
    api.store.remove(Resource.POD, NAMESPACE, "went")
    api.store.remove(Resource.POD, NAMESPACE, "just-went")

    view = look(api, inputs)

    assert [pod.meta.name for pod in view.pods] == ["stays"]
    assert [(pod.meta.name, pod.is_gone) for pod in view.gone_pods] == [
        ("went", True),
        ("just-went", True),
    ]


def test_owners_are_read_before_their_dependents(api: FakeApi, pipeline: Body) -> None:
    look(api)
    lists = [call.resource for call in api.calls if call.verb == "list"]
    assert lists[:4] == [Resource.ATTEMPT, Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD]


def read_claims(api: FakeApi, inputs: PassInputs, times: int, now: float = NOW) -> int:
    """Return the number of passes that read the claim."""
    before = sum(call.resource is Resource.CLAIM for call in api.calls)
    for _ in range(times):
        asyncio.run(look_at(api, inputs, now))
    return sum(call.resource is Resource.CLAIM for call in api.calls) - before


async def look_at(api: FakeApi, inputs: PassInputs, now: float) -> View:
    pipeline = await find_pipeline(api, KEY, inputs.cache)
    assert pipeline is not None
    return (await observe(api, pipeline, inputs, now)).view


@pytest.fixture
def claim(api: FakeApi) -> Body:
    body = {"metadata": {"name": "corpus-ledger"}, "status": {"phase": "Bound"}}
    return api.store.create(Resource.CLAIM, NAMESPACE, body)


def test_a_claim_under_an_attempt_is_read_every_few_minutes(
    api: FakeApi, pipeline: Body, claim: Body
) -> None:
    inputs = make_senses()
    make_attempt(api.store, pipeline)
    assert read_claims(api, inputs, 3) == 1
    assert read_claims(api, inputs, 1, NOW + KEEP_SECONDS) == 1
    assert read_claims(api, inputs, 1, NOW) == 1  # a clock that was set back
    view = asyncio.run(look_at(api, inputs, NOW + 1))
    assert view.claim is not None
    assert view.claim.phase == "Bound"
    inputs.forget(PodOwner(NAMESPACE, str(pipeline["metadata"]["uid"])))
    assert read_claims(api, inputs, 1, NOW + 2) == 1


def test_a_claim_is_read_again_before_a_new_attempt(
    api: FakeApi, pipeline: Body, claim: Body
) -> None:
    inputs = make_senses()
    assert read_claims(api, inputs, 3) == 3
    make_attempt(api.store, pipeline)
    api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", {"isFrozen": True})
    assert read_claims(api, inputs, 3) == 3


def test_a_claim_that_is_resized_is_read_once_a_minute(
    api: FakeApi, pipeline: Body, claim: Body
) -> None:
    make_attempt(api.store, pipeline)
    inputs = make_senses()
    capacity = {"phase": "Bound", "capacity": {"storage": "10Gi"}}
    api.store.put_status(Resource.CLAIM, NAMESPACE, "corpus-ledger", capacity)
    size = {"spec": {"resources": {"requests": {"storage": "20Gi"}}}}
    api.store.patch(Resource.CLAIM, NAMESPACE, "corpus-ledger", size)
    assert read_claims(api, inputs, 3) == 1
    assert read_claims(api, inputs, 3, NOW + RESIZE_SECONDS) == 1


def test_an_unbound_claim_is_read_every_few_seconds(
    api: FakeApi, pipeline: Body, claim: Body
) -> None:
    make_attempt(api.store, pipeline)
    inputs = make_senses()
    api.store.put_status(Resource.CLAIM, NAMESPACE, "corpus-ledger", {"phase": "Pending"})
    assert read_claims(api, inputs, 3) == 1
    assert read_claims(api, inputs, 3, NOW + UNBOUND_SECONDS) == 1


def test_a_newly_made_claim_is_not_read(api: FakeApi, pipeline: Body, claim: Body) -> None:
    make_attempt(api.store, pipeline)
    inputs = make_senses()
    uid = str(pipeline["metadata"]["uid"])
    assert not inputs.put(NAMESPACE, uid, Resource.CLAIM, claim, NOW)
    assert read_claims(api, inputs, 3) == 0


def test_a_claim_without_a_volume_is_read_again(api: FakeApi, pipeline: Body, claim: Body) -> None:
    make_attempt(api.store, pipeline)
    inputs = make_senses()
    api.store.put_status(Resource.CLAIM, NAMESPACE, "corpus-ledger", {"phase": "Lost"})
    assert read_claims(api, inputs, 3) == 3


def test_a_spec_is_parsed_again_after_any_change() -> None:
    body = make_pipeline(FakeApi().store, retry={"maxRetries": 7})
    first = read_pipeline(body)
    again = read_pipeline(copy.deepcopy(body), first)
    assert again.spec is first.spec
    assert again.manifest is first.manifest
    body = copy.deepcopy(body)
    body["spec"]["retry"]["maxRetries"] = 8
    changed = read_pipeline(body, first)
    assert changed.spec is not None
    assert changed.spec.retry.max_retries == 8
    body = copy.deepcopy(body)
    body["spec"]["retry"]["maxRetries"] = "many"
    invalid = read_pipeline(body, changed)
    assert invalid.spec is None
    assert invalid.problems == read_pipeline(body).problems
    assert read_pipeline(body, invalid).problems == invalid.problems


def make_code(api: FakeApi) -> None:
    body = {"metadata": {"name": "mystages"}, "data": {"m.py": "x = 1\n"}, "binaryData": None}
    api.store.create(Resource.CONFIG_MAP, NAMESPACE, body)


def test_code_is_read_for_the_next_attempt(api: FakeApi) -> None:
    pipeline = make_pipeline(api.store, code={"configMap": "mystages"})
    assert look(api).code is None
    make_code(api)
    assert look(api).code == CodeFiles({"m.py": "x = 1\n"}, {})
    attempt = make_attempt(api.store, pipeline)
    assert look(api).code is not None
    rayjob = make_rayjob(api.store, pipeline, attempt)
    made = {"rayJob": {"name": "corpus-1", "uid": rayjob["metadata"]["uid"]}}
    api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", made)
    assert look(api).code is None
    api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", {**made, "isFrozen": True})
    assert look(api).code is not None


def test_unreadable_code_does_not_count_as_missing(api: FakeApi) -> None:
    make_pipeline(api.store, code={"configMap": "mystages"})
    make_code(api)

    def refuse(call: Call) -> None:
        if (call.resource, call.name) == (Resource.CONFIG_MAP, "mystages"):
            raise Forbidden(403, "Forbidden", "configmaps is forbidden")

    api.before.append(refuse)
    view = look(api)
    assert view.code is None
    assert [(refusal.what, refusal.name, refusal.verb) for refusal in view.unread] == [
        ("configmaps", "mystages", "get")
    ]


# --- The Job of a check


def plant_check(api: FakeApi, **status: Any) -> Body:
    """Create a due pipeline, its preflight Job, and the pod of this Job."""
    pipeline = make_pipeline(api.store)
    labels = {"strandline.dev/preflight": "key-1"}
    due = {"run": "first", "nextAttemptTime": "2026-11-25T07:00:00Z", **status}
    api.store.put_status(Resource.PIPELINE, NAMESPACE, "corpus", due)
    for resource, name in (
        (Resource.JOB, "corpus-preflight"),
        (Resource.POD, "corpus-preflight-x"),
    ):
        api.store.create(resource, NAMESPACE, {"metadata": {"name": name, "labels": labels}})
    return pipeline


def make_checking() -> PassInputs:
    return replace(make_senses(), is_checked=True)


def test_the_job_of_a_check_is_read_with_its_pod(api: FakeApi) -> None:
    plant_check(api)
    job = look(api, make_checking()).preflight
    assert job is not None
    assert job.pod is not None
    assert (job.meta.name, job.pod.meta.name) == ("corpus-preflight", "corpus-preflight-x")
    # The pod of a check belongs to no attempt. Otherwise the attempt would wait for the pod.
    assert look(api, make_checking()).pods == ()


@pytest.mark.parametrize("resource", [Resource.JOB, Resource.POD])
def test_an_unreadable_job_does_not_prevent_other_reads(api: FakeApi, resource: Resource) -> None:
    plant_check(api)

    def refuse(call: Call) -> None:
        # A pass lists the pods only after it has read the Job.
        is_of_check = any(past.resource is Resource.JOB for past in api.calls)
        if is_of_check and call.resource is resource:
            raise Forbidden(403, "Forbidden", "no such right")

    api.before.append(refuse)
    view = look(api, make_checking())
    assert (view.unread, view.preflight and view.preflight.unread) == ((), "no such right")


def test_an_unneeded_check_is_not_read(api: FakeApi) -> None:
    plant_check(api, nextAttemptTime=None)
    assert look(api, make_checking()).preflight is None
    plant = FakeApi()
    plant_check(plant)
    assert look(plant).preflight is None
    assert Resource.JOB not in {call.resource for call in (*api.calls, *plant.calls)}
