"""Without a permission, the operator reports this and decides nothing about unreadable objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from fake_api import Call, FakeApi
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.status.enums import Trigger
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType
from strandline_operator.cluster.access import Access
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal

READ = (Resource.ATTEMPT, Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD)
everywhere = pytest.mark.parametrize("resource", READ)


def unread(resource: Resource, verb: str = "list") -> tuple[Refusal, ...]:
    return (Refusal(resource.value, "", 403, "the server's words", verb),)


def tell(cluster: SimulatedCluster, type_: ConditionType) -> tuple[str, str, str]:
    found = cluster.status.find_condition(type_)
    assert found is not None
    return found.status, found.reason, found.message


@everywhere
def test_a_running_attempt_is_neither_judged_nor_doubled(resource: Resource) -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    before, calls = cluster.attempts["corpus-1"][1], cluster.calls
    cluster.unread = unread(resource)
    cluster.advance(100_000)

    assert cluster.attempts == {"corpus-1": (cluster.attempts["corpus-1"][0], before)}
    assert cluster.calls == calls + 1  # one write: the status with the missing permission
    truth, reason, message = tell(cluster, ConditionType.SUCCEEDED)
    assert (truth, reason) == ("Unknown", "PermissionDenied")
    assert f"the operator's role lacks 'list' on {resource}: the server's words" in message
    cluster.unread = ()
    cluster.settle()
    assert tell(cluster, ConditionType.SUCCEEDED)[:2] == ("Unknown", "Running")


def test_a_refused_list_causes_one_event_and_is_named_once() -> None:
    cluster = SimulatedCluster(unread=unread(Resource.POD) * 2)
    cluster.settle()
    cluster.advance(600)
    (event,) = [event for event in cluster.events if event.is_warning]
    assert event.reason == EventReason.BLOCKED
    assert event.message.count("the operator's role lacks 'list' on pods") == 1


def test_a_refused_list_starts_and_releases_nothing() -> None:
    cluster = SimulatedCluster(unread=unread(Resource.POD))
    cluster.annotate("cancel", "from another life")
    cluster.settle()
    assert (cluster.attempts, cluster.objects) == ({}, {})
    assert tell(cluster, ConditionType.RECONCILING)[:2] == ("True", "PermissionDenied")
    cluster.unread = ()
    cluster.settle()
    assert cluster.attempts["corpus-1"][0]["spec"]["trigger"] == Trigger.RUN

    cluster.unread = unread(Resource.POD)
    cluster.pipeline["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    cluster.settle()
    assert cluster.pipeline["metadata"]["finalizers"]


def test_a_run_that_is_over_stays_over() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.end_rayjob()
    cluster.settle()
    cluster.finish_teardown()
    cluster.unread = unread(Resource.RAYJOB)
    cluster.settle()
    assert tell(cluster, ConditionType.SUCCEEDED)[:2] == ("True", "Completed")


def test_an_unreadable_claim_prevents_new_attempts_only() -> None:
    cluster = SimulatedCluster(unread=unread(Resource.CLAIM, "get"))
    cluster.settle()
    assert not cluster.attempts
    truth, reason, message = tell(cluster, ConditionType.STORAGE_READY)
    assert (truth, reason) == ("Unknown", "PermissionDenied")
    assert "lacks 'get' on persistentvolumeclaims" in message
    assert cluster.list_of(Resource.CLAIM) == []
    cluster.unread = ()
    cluster.settle()
    cluster.start_rayjob()
    cluster.unread = unread(Resource.CLAIM, "get")
    cluster.fail_attempt()
    assert cluster.attempts["corpus-1"][1].is_frozen


def test_a_refused_watch_is_reported_while_work_continues() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.start_rayjob()
    cluster.refusals = unread(Resource.POD, "watch")
    cluster.pass_once()
    assert "lacks 'watch' on pods" in tell(cluster, ConditionType.SUCCEEDED)[2]
    cluster.fail_attempt()
    assert cluster.attempts["corpus-1"][1].is_frozen


def forbid(api: FakeApi, is_meant: Callable[[Call], bool]) -> None:
    def refuse(call: Call) -> None:
        if is_meant(call):
            raise Forbidden(403, "Forbidden", "cannot do that")

    api.before.append(refuse)


def test_each_refused_read_is_recorded_with_its_verb() -> None:
    api = FakeApi()
    forbid(api, lambda call: call.resource is Resource.POD or call.verb == "get")

    async def read() -> Access:
        access = Access(api, NAMESPACE)
        assert await access.list_all(Resource.POD, "") == []
        assert await access.list_all(Resource.RAYJOB, "") == []
        assert await access.get(Resource.CLAIM, "mine") is None
        return access

    found = asyncio.run(read()).refused
    assert [(refusal.what, refusal.name, refusal.verb) for refusal in found] == [
        ("pods", "", "list"),
        ("persistentvolumeclaims", "mine", "get"),
    ]


@everywhere
def test_a_pass_names_the_refused_list(resource: Resource) -> None:
    api = FakeApi()
    make_attempt(api.store, make_pipeline(api.store))
    forbid(api, lambda call: call.resource is resource and call.verb == "list")
    asyncio.run(Operator(api, Limits()).passes.run(KEY))
    writes = [(call.verb, call.resource) for call in api.writes]
    assert writes == [("status", Resource.PIPELINE), ("create", Resource.EVENT)]
    (pipeline,) = api.store.list(Resource.PIPELINE)
    assert f"lacks 'list' on {resource}" in pipeline["status"]["state"]


def test_a_refused_status_write_is_logged_at_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    api = FakeApi()
    make_pipeline(api.store)
    forbid(api, lambda call: call.verb == "status")
    operator = Operator(api, Limits(resync=60.0))

    async def run(passes: int) -> list[float | None]:
        return [(await operator.passes.run(KEY)).wake_at for _ in range(passes)]

    assert asyncio.run(run(5)) == [api.store.time + 60.0] * 5
    assert [record.getMessage() for record in caplog.records] == [
        "no status can be written: curationpipelines.strandline.dev corpus/status: cannot do that"
    ]
    assert {call.verb for call in api.writes} == {"status"}
    api.store.time += 61.0
    asyncio.run(run(1))
    assert len(caplog.records) == 2
