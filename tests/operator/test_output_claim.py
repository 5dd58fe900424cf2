"""The output claim is checked like the ledger's claim, and reported in the same condition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import FakeApi
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal, View
from strandline_operator.reconcile.caches.claims import KEEP_SECONDS
from strandline_operator.reconcile.observe import PassInputs, find_pipeline, observe

Body = dict[str, Any]
NOW = 1_000_000.0
SHARED = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline with a bound ledger claim, whose workers write to another claim."""
    cluster = SimulatedCluster()
    cluster.edit(storage={"output": {"claimName": "datasets"}})
    cluster.pass_once()
    cluster.bind_claim()
    return cluster


def put(cluster: SimulatedCluster, **body: Any) -> None:
    cluster.objects[Resource.CLAIM, "datasets"] = {"metadata": {"name": "datasets"}, **body}


def said(cluster: SimulatedCluster) -> tuple[str, str, str]:
    found = cluster.status.find_condition(ConditionType.STORAGE_READY)
    assert found is not None
    return found.status, found.reason, found.message


def with_modes(*modes: str) -> Body:
    return {"spec": {"accessModes": list(modes)}, "status": {"phase": "Bound"}}


def test_a_missing_output_claim_is_awaited(cluster: SimulatedCluster) -> None:
    cluster.settle()
    truth, reason, message = said(cluster)
    assert (truth, reason) == ("False", "ClaimMissing")
    assert "claim datasets of storage.output" in message
    assert not cluster.attempts
    summary = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert summary is not None
    assert (summary.status, summary.reason) == ("Unknown", "ClaimMissing")
    put(cluster, **SHARED)
    cluster.settle()
    assert said(cluster)[:2] == ("True", "ClaimBound")
    assert "datasets" in said(cluster)[2]
    assert len(cluster.attempts) == 1


@pytest.mark.parametrize(
    ("claim", "truth", "reason", "is_made"),
    [
        ({}, "Unknown", "ClaimPending", True),
        ({"status": {"phase": "Pending"}}, "Unknown", "ClaimPending", True),
        ({"status": {"phase": "Lost"}}, "False", "ClaimLost", False),
        (with_modes("ReadOnlyMany"), "False", "ClaimNotWritable", False),
        # Only pods on the same node can share the claim, and no node is chosen yet.
        (with_modes("ReadWriteOnce"), "Unknown", "ClaimNotShared", True),
        (with_modes("ReadWriteOncePod"), "False", "ClaimNotShared", False),
        (with_modes("ReadWriteOnce", "ReadWriteMany"), "True", "ClaimBound", True),
        (with_modes(), "True", "ClaimBound", True),
    ],
)
def test_an_output_claim_not_writable_by_all_workers_is_reported(
    cluster: SimulatedCluster, claim: Body, truth: str, reason: str, is_made: bool
) -> None:
    put(cluster, **claim)
    cluster.settle()
    assert said(cluster)[:2] == (truth, reason)
    assert "datasets" in said(cluster)[2]
    assert bool(cluster.attempts) == is_made


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
@pytest.mark.parametrize("groups", [[], [{"name": "later", "minReplicas": 0, "maxReplicas": 0}]])
def test_a_cluster_without_workers_may_use_an_unshared_claim(mode: str, groups: list[Body]) -> None:
    cluster = SimulatedCluster()
    cluster.edit(storage={"output": {"claimName": "datasets"}}, ray={"workerGroups": groups})
    cluster.pass_once()
    cluster.bind_claim()
    put(cluster, **with_modes(mode))
    cluster.settle()
    assert said(cluster)[:2] == ("True", "ClaimBound")


def test_the_worse_of_both_claims_is_reported(cluster: SimulatedCluster) -> None:
    put(cluster, **with_modes("ReadWriteOnce"))
    (ledger,) = [claim for claim in cluster.list_of(Resource.CLAIM) if "corpus" in str(claim)]
    ledger["status"] = {"phase": "Lost"}
    cluster.settle()
    assert said(cluster)[:2] == ("False", "ClaimLost")
    assert "claim corpus-ledger" in said(cluster)[2]


def test_an_unreadable_output_claim_does_not_count_as_missing(
    cluster: SimulatedCluster,
) -> None:
    refused = "persistentvolumeclaims is forbidden"
    cluster.unread = (Refusal(Resource.CLAIM.value, "datasets", 403, refused, "get"),)
    cluster.settle()
    assert said(cluster)[:2] == ("Unknown", "PermissionDenied")
    assert refused in said(cluster)[2]
    assert not cluster.attempts
    cluster.unread = ()
    put(cluster, **SHARED)
    cluster.settle()
    assert len(cluster.attempts) == 1


# --- Reading


def make_senses(api: FakeApi) -> PassInputs:
    return Operator(api, Limits()).passes.inputs


async def look(api: FakeApi, inputs: PassInputs, now: float = NOW) -> View:
    pipeline = await find_pipeline(api, KEY, inputs.cache)
    assert pipeline is not None
    return (await observe(api, pipeline, inputs, now)).view


def count_reads(api: FakeApi, name: str) -> int:
    return sum(call.resource is Resource.CLAIM and call.name == name for call in api.calls)


def test_both_claims_are_read_and_each_is_kept_for_a_minute_while_in_use() -> None:
    api = FakeApi()
    pipeline = make_pipeline(api.store, storage={"output": {"claimName": "datasets"}})
    make_attempt(api.store, pipeline)
    for name in ("corpus-ledger", "datasets"):
        body = {"metadata": {"name": name}, "status": {"phase": "Bound"}}
        api.store.create(Resource.CLAIM, NAMESPACE, body)
    inputs = make_senses(api)

    async def read() -> None:
        for _ in range(3):
            view = await look(api, inputs)
            assert view.claim is not None
            assert view.output is not None
            assert (view.claim.meta.name, view.output.meta.name) == ("corpus-ledger", "datasets")
        await look(api, inputs, NOW + KEEP_SECONDS)

    asyncio.run(read())
    assert [count_reads(api, name) for name in ("corpus-ledger", "datasets")] == [2, 2]


@pytest.mark.parametrize("output", [{}, {"url": "s3://bucket/corpus"}])
def test_a_pipeline_without_an_output_claim_reads_none(output: Body) -> None:
    api = FakeApi()
    make_pipeline(api.store, storage={"output": output})
    assert asyncio.run(look(api, make_senses(api))).output is None
    assert [call.name for call in api.calls if call.resource is Resource.CLAIM] == ["corpus-ledger"]
