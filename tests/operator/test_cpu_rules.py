"""CPU limits are set only if a quota or a limit range requires them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_api import Call, FakeApi
from operator_bodies import NAMESPACE
from simulated_cluster import SimulatedCluster
from strandline_api.notation.quantities import parse_cpu
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.model.cpu_rules import CpuRules, read_rules
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.namespaces.cpu_rules import KEEP_SECONDS, CpuRulesMemory

Body = dict[str, Any]
RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


def bound(kind: str, **amounts: Any) -> Body:
    limits = {"type": kind, **{name: {"cpu": cpu} for name, cpu in amounts.items()}}
    return {"spec": {"limits": [limits]}}


def demand(*names: str) -> Body:
    return {"metadata": {"name": "team"}, "spec": {"hard": dict.fromkeys(names, "8")}}


@pytest.mark.parametrize(
    ("quotas", "ranges", "limit"),
    [
        ([], [], None),
        ([demand("limits.memory", "requests.cpu", "pods")], [], None),
        ([demand("limits.cpu")], [], "1000m"),
        ([demand("limits.cpu")], [bound("Container", max="500m")], "500m"),
        # The server sets the limit that the quota requires from the default of the limit range.
        ([demand("limits.cpu")], [bound("Container", default="500m")], None),
        ([], [bound("Container", max="2", default="2")], None),
        ([], [bound("Container", max="2")], "1000m"),
        ([], [bound("Pod", max="8")], "1000m"),
        ([], [bound("Container", maxLimitRequestRatio="4")], "200m"),
        ([], [bound("Container", maxLimitRequestRatio="4", default="2")], "200m"),
        ([], [bound("Pod", maxLimitRequestRatio="2")], "100m"),
        # The default limit is below the request, so the server would reject a pod without an
        # explicit limit.
        ([], [bound("Container", default="20m")], "1000m"),
        ([], [bound("PersistentVolumeClaim", max="2")], None),
        ([{}, {"spec": 7}, {"spec": {"hard": []}}], [{}, {"spec": {"limits": [7]}}], None),
        ([], [bound("Container", max="lots")], None),
    ],
)
def test_a_limit_is_set_only_if_required(
    quotas: list[Body], ranges: list[Body], limit: str | None
) -> None:
    fitting = read_rules(quotas, ranges).fit(RESOURCES)
    assert fitting["limits"].get("cpu") == limit
    assert fitting["limits"]["memory"] == "512Mi"
    assert "cpu" not in RESOURCES["limits"]


def test_a_request_is_raised_to_the_minimum() -> None:
    fitting = read_rules([], [bound("Container", min="100m")]).fit(RESOURCES)
    assert fitting["requests"] == {"cpu": "100m", "memory": "128Mi"}


CORES = st.floats(0.001, 64) | st.just(math.inf)


@given(st.booleans(), CORES, st.floats(0, 4), st.floats(0.1, 64), st.floats(1, 100))
def test_law_fitted_values_are_within_all_bounds(
    is_asked: bool, default: float, least: float, most: float, ratio: float
) -> None:
    rules = CpuRules(is_asked, default, min(least, most), most, ratio)
    fitting = rules.fit(RESOURCES)
    request = parse_cpu(fitting["requests"]["cpu"])
    limit = parse_cpu(fitting["limits"].get("cpu", f"{rules.default:f}" if default < 1e6 else 1e6))
    assert rules.least - 0.001 <= request <= most
    assert request <= limit + 0.001
    if "cpu" in fitting["limits"]:
        assert limit <= max(request, most)
        assert limit <= request * ratio + 0.001


def list_resources(cluster: SimulatedCluster) -> dict[str, Body]:
    """Return the resources of the operator's containers in the attempt, by name."""
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    spec = rayjob["spec"]
    (submitter,) = spec["submitterPodTemplate"]["spec"]["containers"]
    ray = spec["rayClusterSpec"]
    (head,) = ray["headGroupSpec"]["template"]["spec"]["containers"]
    autoscaler = {"name": "autoscaler", **ray["autoscalerOptions"]}
    return {each["name"]: each["resources"] for each in (submitter, head, autoscaler)}


@pytest.mark.parametrize("is_asked", [False, True])
def test_every_container_has_a_limit_if_required(*, is_asked: bool) -> None:
    cluster = SimulatedCluster(
        cpu_rules=CpuRules(is_limit_asked=is_asked), limits=Limits(preflight=True)
    )
    cluster.spec["ray"]["workerGroups"][0]["maxReplicas"] = 4
    cluster.settle()
    (job,) = cluster.list_of(Resource.JOB)
    (check,) = job["spec"]["template"]["spec"]["containers"]
    assert ("cpu" in check["resources"]["limits"]) is is_asked
    cluster.limits = Limits()
    cluster.settle()
    found = {name: "cpu" in each["limits"] for name, each in list_resources(cluster).items()}
    assert found == {"ray-head": True, "ray-job-submitter": is_asked, "autoscaler": is_asked}


def read(api: FakeApi, memory: CpuRulesMemory, now: float) -> bool:
    return asyncio.run(memory.read(api, NAMESPACE, now)).is_limit_asked


def test_rules_are_cached_and_survive_a_server_outage() -> None:
    api, memory = FakeApi(), CpuRulesMemory()
    assert not read(api, memory, 0.0)
    api.store.create(Resource.QUOTA, NAMESPACE, demand("limits.cpu"))
    assert not read(api, memory, KEEP_SECONDS - 1)
    assert read(api, memory, KEEP_SECONDS)

    def refuse(_: Call) -> None:
        raise Unavailable(0, "", "gone")

    api.before.append(refuse)
    assert read(api, memory, 3 * KEEP_SECONDS)


def test_without_permission_the_rules_are_unknown_and_not_requested_again() -> None:
    api, memory = FakeApi(), CpuRulesMemory()
    api.store.create(Resource.QUOTA, NAMESPACE, demand("limits.cpu"))

    def refuse(_: Call) -> None:
        raise Forbidden(403, "", "no")

    api.before.append(refuse)
    assert not read(api, memory, 0.0)
    api.before.clear()
    assert not read(api, memory, 10 * KEEP_SECONDS)


def test_concurrent_pipelines_of_a_namespace_read_its_rules_once() -> None:
    api, memory = FakeApi(), CpuRulesMemory()

    async def answer_later(_: Call) -> None:
        await asyncio.sleep(0)

    async def ask() -> None:
        api.before.append(answer_later)
        await asyncio.gather(*(memory.read(api, NAMESPACE, float(now)) for now in range(9)))

    asyncio.run(ask())
    assert [call.resource for call in api.calls] == [Resource.QUOTA, Resource.LIMIT_RANGE]
