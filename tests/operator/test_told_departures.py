"""Drivers are notified of departing nodes, once for each mark, without delaying a pass."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.aio.client.configuration import Configuration

from example_counts import scale_examples
from fake_api import FakeApi
from http_stub import serve
from node_bodies import (
    AKS_SPOT,
    EKS_SPOT,
    GKE_SPOT,
    SHUTTING_DOWN,
    end_by_eviction,
    spell_condition,
    spell_node,
    spell_taint,
)
from operator_bodies import KEY, make_attempt, make_pipeline, make_pod
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.reader_token import (
    HEADER,
    derive_former_notice_token,
    derive_notice_token,
)
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.driver import DriverAddress, send_notice
from strandline_operator.cluster.errors import Unavailable
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.marks import read_marks
from strandline_operator.model.plan import Departure, PassPlan, Resource
from strandline_operator.model.view import View
from strandline_operator.reconcile.departures import MOST_AT_ONCE, MOST_TRIES, DepartureReports
from strandline_operator.render.disruptions import WAIT_ANNOTATIONS

Json = dict[str, Any]
ITN = spell_taint("aws-node-termination-handler/spot-itn", "1a2b")
MARKS: list[tuple[Json, float, str]] = [
    (spell_node(labels=EKS_SPOT, taints=[ITN]), 120.0, "spot node node-w is being reclaimed"),
    (
        spell_node(
            labels=GKE_SPOT, taints=[spell_taint("cloud.google.com/impending-node-termination")]
        ),
        30.0,
        "spot node node-w is being reclaimed",
    ),
    (
        spell_node(
            labels=AKS_SPOT, taints=[spell_taint("remediator.kubernetes.azure.com/unschedulable")]
        ),
        30.0,
        "spot node node-w is being reclaimed",
    ),
    (
        spell_node(labels=GKE_SPOT, conditions=[SHUTTING_DOWN]),
        15.0,
        "spot node node-w is being reclaimed",
    ),
    (spell_node(conditions=[SHUTTING_DOWN]), 15.0, "node node-w is being shut down"),
    (
        spell_node(
            taints=[spell_taint("karpenter.sh/disrupted")],
            metadata={"deletionTimestamp": "2026-11-26T04:00:00Z"},
        ),
        45.0,
        "Karpenter is taking node node-w away",
    ),
    (
        spell_node(taints=[spell_taint("ToBeDeletedByClusterAutoscaler", "1")]),
        45.0,
        "node node-w is being removed by the cluster autoscaler",
    ),
    (
        spell_node(metadata={"deletionTimestamp": "2026-11-26T04:00:00Z"}),
        45.0,
        "node node-w is being removed from the cluster",
    ),
]


def make_cluster() -> SimulatedCluster:
    """Return an attempt on two nodes, its pods with addresses and a grace period of 45 seconds."""
    cluster = SimulatedCluster.running()
    for pod in cluster.list_of(Resource.POD):
        ending = "h" if pod["metadata"]["name"].endswith("head") else "w"
        pod["spec"] = {"nodeName": f"node-{ending}", "terminationGracePeriodSeconds": 45}
        pod["status"]["podIP"] = "10.0.0.1" if ending == "h" else "10.0.0.2"
    cluster.marks = {"node-h": read_marks(spell_node()), "node-w": read_marks(spell_node())}
    cluster.settle()
    return cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    return make_cluster()


def find_pod(cluster: SimulatedCluster, ending: str) -> Json:
    pods = cluster.list_of(Resource.POD)
    return next(pod for pod in pods if pod["metadata"]["name"].endswith(ending))


def list_due(cluster: SimulatedCluster) -> list[tuple[str, float, str]]:
    plan = cluster.pass_once()
    return [(each.node, each.seconds, each.why) for each in plan.departures]


@pytest.mark.parametrize(("node", "seconds", "why"), MARKS)
def test_a_mark_on_a_workers_node_is_sent_with_the_remaining_time(
    cluster: SimulatedCluster, node: Json, seconds: float, why: str
) -> None:
    assert list_due(cluster) == []
    cluster.marks["node-w"] = read_marks(node)
    assert list_due(cluster) == [("10.0.0.2", seconds, why)]
    (departure,) = cluster.pass_once().departures
    assert (departure.head, departure.pod) == (
        "10.0.0.1",
        find_pod(cluster, "cpu")["metadata"]["uid"],
    )


def test_a_mark_on_the_heads_node_is_sent_too(cluster: SimulatedCluster) -> None:
    cluster.marks["node-h"] = read_marks(spell_node(taints=[ITN]))
    assert list_due(cluster) == [("10.0.0.1", 120.0, "spot node node-h is being reclaimed")]


def test_a_terminating_pod_is_sent_with_its_remaining_grace_period(
    cluster: SimulatedCluster,
) -> None:
    gone_by = format_time(cluster.time + 40)
    find_pod(cluster, "cpu")["metadata"]["deletionTimestamp"] = gone_by
    assert list_due(cluster) == [("10.0.0.2", 40.0, "pod corpus-1-cpu is being deleted")]
    cluster.marks["node-w"] = read_marks(spell_node(conditions=[SHUTTING_DOWN]))
    assert list_due(cluster) == [("10.0.0.2", 15.0, "node node-w is being shut down")]
    cluster.time += 60
    assert list_due(cluster)[0][1] == 0.0


def test_an_evicted_pod_is_sent_before_its_deletion(cluster: SimulatedCluster) -> None:
    status = {**end_by_eviction(), "podIP": "10.0.0.2"}
    find_pod(cluster, "cpu")["status"] = status
    assert list_due(cluster) == [("10.0.0.2", 45.0, "the pod is being evicted from node node-w")]


def test_a_cordoned_node_is_no_departure(cluster: SimulatedCluster) -> None:
    cluster.marks["node-w"] = read_marks(spell_node(unschedulable=True))
    assert list_due(cluster) == []


REVOCABLE = [
    "karpenter.sh/disrupted",
    "aws-node-termination-handler/rebalance-recommendation",
]


@pytest.mark.parametrize("name", REVOCABLE)
@pytest.mark.parametrize("node", ["node-h", "node-w"])
def test_a_removable_taint_is_no_departure(cluster: SimulatedCluster, name: str, node: str) -> None:
    cluster.marks[node] = read_marks(spell_node(labels=EKS_SPOT, taints=[spell_taint(name)]))
    assert list_due(cluster) == []


def test_karpenters_older_taint_is_no_departure_either(cluster: SimulatedCluster) -> None:
    taint = spell_taint("karpenter.sh/disruption", "disrupting")
    cluster.marks["node-w"] = read_marks(spell_node(taints=[taint]))
    assert list_due(cluster) == []


def test_a_notice_beside_a_recommendation_counts(cluster: SimulatedCluster) -> None:
    taints = [spell_taint(REVOCABLE[1]), spell_taint("node.cloudprovider.kubernetes.io/shutdown")]
    cluster.marks["node-w"] = read_marks(spell_node(labels=EKS_SPOT, taints=taints))
    assert list_due(cluster) == [("10.0.0.2", 0.0, "spot node node-w is being reclaimed")]


KARPENTERS = spell_node(
    taints=[spell_taint("karpenter.sh/disrupted")],
    metadata={"deletionTimestamp": "2026-11-26T04:00:00Z"},
)
SCALED_DOWN = spell_node(taints=[spell_taint("ToBeDeletedByClusterAutoscaler", "1")])
RESTARTED = spell_node(unschedulable=True, conditions=[spell_condition("RebootScheduled")])
BUDGET = {"podDisruptionBudget": True}
HOLDS: list[tuple[Json, Json, Json]] = [
    (KARPENTERS, {"karpenter.sh/do-not-disrupt": "true"}, {}),
    (SCALED_DOWN, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, {}),
    (KARPENTERS, {}, BUDGET),
    (SCALED_DOWN, {}, BUDGET),
    (RESTARTED, {}, BUDGET),
]


def hold(
    cluster: SimulatedCluster, ending: str, node: Json, annotations: Json, wanted: Json
) -> None:
    """Drain the node of a pod. The annotations and the pipeline's settings protect the pod."""
    who = {"head": "node-h", "cpu": "node-w"}[ending]
    cluster.edit(ray={**cluster.spec["ray"], "voluntaryDisruptions": {"workers": "Wait", **wanted}})
    find_pod(cluster, ending)["metadata"]["annotations"] = annotations
    cluster.marks[who] = read_marks({**node, "metadata": {**node["metadata"], "name": who}})


def read_reason(cluster: SimulatedCluster) -> str:
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    return condition.reason


@pytest.mark.parametrize("ending", ["head", "cpu"])
@pytest.mark.parametrize(("node", "annotations", "wanted"), HOLDS)
def test_a_pod_protected_from_a_drain_is_no_departure(
    cluster: SimulatedCluster, ending: str, node: Json, annotations: Json, wanted: Json
) -> None:
    hold(cluster, ending, node, annotations, wanted)
    assert list_due(cluster) == []
    assert read_reason(cluster) == Reason.DRAIN_HELD_BACK
    # An eviction despite the hold, for example after Karpenter's `terminationGracePeriod`, counts
    # as a departure.
    find_pod(cluster, ending)["metadata"]["deletionTimestamp"] = format_time(cluster.time + 30)
    assert [seconds for _, seconds, _ in list_due(cluster)] == [30.0]
    assert read_reason(cluster) == Reason.RUNNING


@pytest.mark.parametrize(
    ("node", "annotations"),
    [
        (KARPENTERS, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        (SCALED_DOWN, {"karpenter.sh/do-not-disrupt": "true"}),
        (RESTARTED, {"karpenter.sh/do-not-disrupt": "true"}),
    ],
)
def test_an_annotation_for_another_controller_protects_nothing(
    cluster: SimulatedCluster, node: Json, annotations: Json
) -> None:
    hold(cluster, "head", node, annotations, {})
    assert [each[0] for each in list_due(cluster)] == ["10.0.0.1"]
    assert read_reason(cluster) == Reason.RUNNING


@pytest.mark.parametrize(
    "node",
    [
        spell_node(labels=EKS_SPOT, taints=[ITN], unschedulable=True),
        spell_node(
            labels=AKS_SPOT,
            taints=[spell_taint("remediator.kubernetes.azure.com/unschedulable")],
            unschedulable=True,
        ),
        spell_node(conditions=[SHUTTING_DOWN], unschedulable=True),
    ],
)
def test_a_cloud_ignores_protection_so_the_driver_is_notified(
    cluster: SimulatedCluster, node: Json
) -> None:
    hold(cluster, "head", node, dict(WAIT_ANNOTATIONS), BUDGET)
    assert [each[0] for each in list_due(cluster)] == ["10.0.0.1"]
    assert read_reason(cluster) == Reason.RUNNING


def test_karpenter_ignores_protection_if_the_cloud_reclaims_the_node(
    cluster: SimulatedCluster,
) -> None:
    hold(cluster, "head", KARPENTERS, dict(WAIT_ANNOTATIONS), {})
    assert list_due(cluster) == []
    cluster.warn("Node", "node-h", "SpotInterrupted", "Spot interruption warning was triggered")
    assert list_due(cluster) == [("10.0.0.1", 120.0, "spot node node-h is being reclaimed")]
    assert read_reason(cluster) == Reason.RUNNING


NODES = st.sampled_from(
    [KARPENTERS, SCALED_DOWN, RESTARTED, *(node for node, *_ in MARKS), spell_node()]
)


@given(
    node=NODES,
    is_cordoned=st.booleans(),
    annotations=st.sets(st.sampled_from(sorted(WAIT_ANNOTATIONS))),
    has_budget=st.booleans(),
    ending=st.sampled_from(["head", "cpu"]),
)
@settings(max_examples=scale_examples(30))
def test_law_no_pod_is_both_protected_and_departing(
    node: Json, is_cordoned: bool, annotations: set[str], has_budget: bool, ending: str
) -> None:
    cluster = make_cluster()
    marked = {**node, "spec": {**node.get("spec", {}), "unschedulable": is_cordoned}}
    chosen = {name: WAIT_ANNOTATIONS[name] for name in annotations}
    hold(cluster, ending, marked, chosen, BUDGET if has_budget else {})
    is_told = bool(list_due(cluster))
    assert not (is_told and read_reason(cluster) == Reason.DRAIN_HELD_BACK)


@pytest.mark.parametrize("state", ["starting", "ended", "deleted", "no address"])
def test_without_a_working_driver_no_departure_is_sent(
    cluster: SimulatedCluster, state: str
) -> None:
    cluster.marks["node-w"] = read_marks(spell_node(taints=[ITN]))
    if state == "starting":
        cluster.end_rayjob("Initializing", "")
        (status,) = (status for _, status in cluster.attempts.values())
        body = cluster.attempts["corpus-1"][0]
        begun = status.model_copy(update={"running_time": None, "phase": "Starting"})
        cluster.attempts["corpus-1"] = (body, begun)
    elif state == "ended":
        cluster.end_rayjob("Failed", "FAILED", message="exit code 1")
    elif state == "deleted":
        (rayjob,) = cluster.list_of(Resource.RAYJOB)
        rayjob["metadata"]["deletionTimestamp"] = format_time(cluster.time)
    else:
        find_pod(cluster, "head")["status"].pop("podIP")
    assert list_due(cluster) == []


def make_departure(pod: str = "w", mark: str = "spot-itn", seconds: float = 120.0) -> Departure:
    return Departure("uid-1", "10.0.0.1", pod, mark, f"ip-{pod}", seconds, f"{pod} goes")


URL = "http://10.0.0.1:8780/notice"
LIMITS = Limits(driver_port=8780, token_key=b"key")


def report(reports: DepartureReports, api: FakeApi, *departures: Departure) -> bool:
    return asyncio.run(reports.report(api, "p", departures, LIMITS))


def test_a_driver_is_notified_once_per_pod_and_mark() -> None:
    api, reports = FakeApi(answers={URL: 200}), DepartureReports()
    for _ in range(3):
        assert not report(reports, api, make_departure())
    body = {"node": "ip-w", "seconds": 120.0, "why": "w goes"}
    assert api.pushed == [(URL, body, derive_notice_token(b"key", "uid-1"))]
    report(reports, api, make_departure(mark="deletionTimestamp"), make_departure("v"))
    assert len(api.pushed) == 3
    reports.forget("p")
    report(reports, api, make_departure())
    assert len(api.pushed) == 4


def test_a_driver_is_notified_at_its_pods_port() -> None:
    api = FakeApi(answers={URL.replace("8780", "8790"): 200})
    assert not report(DepartureReports(), api, replace(make_departure(), port=8790))
    assert [url for url, *_ in api.pushed] == [URL.replace("8780", "8790")]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_driver_without_support_for_notices_gets_no_more(status: int) -> None:
    api, reports = FakeApi(answers={URL: status}), DepartureReports()
    assert not report(reports, api, make_departure())
    assert not report(reports, api, make_departure("v"))
    assert len(api.pushed) == 1
    # The next attempt may have a newer image that accepts notices.
    newer = Departure("uid-2", "10.0.0.1", "w", "m", "ip", 1.0, "w goes")
    report(reports, api, newer)
    assert len(api.pushed) == 2


def test_notices_to_an_unresponsive_driver_are_retried_a_few_times() -> None:
    api, reports = FakeApi(), DepartureReports()
    tries = [report(reports, api, make_departure()) for _ in range(MOST_TRIES + 2)]
    assert tries == [True] * (MOST_TRIES - 1) + [False] * 3
    assert len(api.calls) == MOST_TRIES
    api, reports = FakeApi(), DepartureReports()
    assert report(reports, api, make_departure())
    api.answers[URL] = 200
    assert not report(reports, api, make_departure())


def test_the_most_urgent_departure_is_sent_first() -> None:
    api, reports = FakeApi(answers={URL: 200}), DepartureReports()
    many = [make_departure(str(number), seconds=100.0 - number) for number in range(40)]
    assert report(reports, api, *many)
    assert [body["seconds"] for _, body, _ in api.pushed] == [
        61.0 + number for number in range(MOST_AT_ONCE)
    ]
    assert not report(reports, api, *many)
    assert len(api.pushed) == 40


def test_a_pass_notifies_a_driver_and_retries_after_a_failure() -> None:
    api = FakeApi()
    pipeline = make_pipeline(api.store)
    make_attempt(api.store, pipeline)
    make_pod(api.store, pipeline, "corpus-1-head", "head", ip="10.0.0.1")
    operator = Operator(api, Limits())

    def decide(view: View, *_: object) -> PassPlan:
        return PassPlan(departures=(make_departure(),), wake_at=api.store.time + 5)

    operator.passes.decide = decide
    passed = asyncio.run(operator.passes.run(KEY))
    assert passed.wake_at == api.store.time + 1
    api.answers[URL] = 200
    passed = asyncio.run(operator.passes.run(KEY))
    assert (len(api.pushed), passed.wake_at) == (1, api.store.time + 5)


def test_a_notice_is_a_post_with_the_token_of_notices() -> None:
    async def story() -> None:
        async with serve() as stub:
            api = KubernetesApi(Configuration(host=stub.url), agent="tests/1")
            port = int(stub.url.rpartition(":")[2])
            token = derive_notice_token(b"key", "uid-1")
            address = DriverAddress("127.0.0.1", port, token)
            stub.answer({"pending": 2})
            assert await send_notice(api, address, {"node": "10.0.0.2"}) == 200
            stub.answer({}, 501)
            assert await send_notice(api, address, {"node": "10.0.0.2"}) == 501
            first = stub.asked[0]
            assert (first.method, first.path, first.body) == (
                "POST",
                "/notice",
                {"node": "10.0.0.2"},
            )
            assert first.headers[HEADER.lower()] == token
            with pytest.raises(Unavailable):
                await send_notice(api, DriverAddress("127.0.0.1", 1, token), {})
            await api.close()

    asyncio.run(story())


def test_an_attempt_of_the_last_release_is_notified_with_its_own_token() -> None:
    api, reports = FakeApi(answers={URL: 401}), DepartureReports()
    assert report(reports, api, make_departure())
    tokens = [token for *_, token in api.pushed]
    assert tokens == [derive_notice_token(b"key", "uid-1"), derive_former_notice_token("uid-1")]


def test_the_notice_token_can_not_be_derived_from_an_attempt() -> None:
    tokens = {derive_notice_token(key, "uid-1") for key in (b"key", b"other")}
    assert len(tokens) == 2
    assert derive_former_notice_token("uid-1") not in tokens
