"""The largest pod that a cluster can hold: which nodes count, and how often nodes are read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_api import FakeApi
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_pod
from played_operator import Operator
from strandline_api.documents.documents import parse_pipeline
from strandline_api.objects.pipeline import PipelineSpec
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.decide.obstacles.capacity import find_rooms
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.capacity import NodeSize, Taint, read_size
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.capacity import CapacityMemory
from strandline_operator.reconcile.observe import find_pipeline, observe
from test_spot_placement import NODES

Body = dict[str, Any]
GI = 2**30
NOW = 1_000_000.0
GPU_ONLY = Taint("gpu", "yes", "NoSchedule")


def spell_node(name: str, memory: str = "10Gi", **more: Any) -> Body:
    allocatable = {"memory": memory, "cpu": "3920m", "nvidia.com/gpu": more.get("gpu", "0")}
    return {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {"taints": more.get("taints", [])},
        "status": {"allocatable": allocatable},
    }


def spec_of(**group: Any) -> PipelineSpec:
    ray = {"workerGroups": [{"name": "cpu", "resources": {"cpu": 2, "memory": "1Gi"}, **group}]}
    return parse_pipeline(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": "corpus"},
            "spec": {"source": {"use": "files"}, "sink": {"use": "jsonl"}, "ray": ray},
        }
    ).spec


# --- Which nodes count


def test_the_largest_node_counts_without_the_system_reserve() -> None:
    nodes = [NodeSize("a", 10 * GI, 4), NodeSize("b", 20 * GI, 4), NodeSize("c", 90 * GI, 1.5)]
    rooms = find_rooms(nodes, spec_of())
    assert rooms["cpu"] == (18 * GI, "b")
    assert rooms.keys() == {"head", "cpu"}


@pytest.mark.parametrize(
    ("pod", "room"),
    [
        ({}, 9),
        ({"nodeSelector": {"pool": "big"}}, 90),
        ({"nodeSelector": {"pool": "none"}}, None),
        ({"tolerations": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}, 180),
        ({"tolerations": [{"key": "gpu", "value": "no", "effect": "NoSchedule"}]}, 9),
        ({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}, 9),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, 180),
        ({"tolerations": [{"operator": "Exists"}]}, 180),
    ],
)
def test_a_node_counts_if_the_pod_may_run_there(pod: Body, room: int | None) -> None:
    nodes = [
        NodeSize("plain", 10 * GI, 4),
        NodeSize("big", 100 * GI, 1, labels={"pool": "big"}),
        NodeSize("gpu", 200 * GI, 4, gpu=4, taints=(GPU_ONLY,)),
    ]
    resources = {"cpu": 1 if "nodeSelector" in pod else 2, "memory": "1Gi"}
    rooms = find_rooms(nodes, spec_of(podTemplate={"spec": pod}, resources=resources))
    found = rooms.get("cpu")
    assert (found.memory if found else None) == (None if room is None else room * GI)


def test_a_pod_with_gpus_counts_on_nodes_with_as_many() -> None:
    nodes = [NodeSize("two", 30 * GI, 8, gpu=2), NodeSize("four", 20 * GI, 8, gpu=4)]
    rooms = find_rooms(nodes, spec_of(resources={"cpu": 1, "memory": "1Gi", "gpu": 3}))
    assert rooms["cpu"].node == "four"


def clouds_nodes(preset: str) -> tuple[NodeSize, ...]:
    """Return a large spot node and a small on-demand node, as a cloud makes them."""
    spot, taint, regular = NODES[preset]
    taints = (Taint(taint, spot[taint], "NoSchedule"),) if taint else ()
    return (
        NodeSize("spot", 100 * GI, 8, labels=spot, taints=taints),
        NodeSize("regular", 10 * GI, 8, labels=regular),
    )


@pytest.mark.parametrize("preset", NODES)
@pytest.mark.parametrize(
    ("on_demand", "head", "group"),
    [((), "regular", "spot"), (("cpu",), "regular", "regular")],
)
def test_a_group_counts_the_nodes_that_its_spot_settings_allow(
    preset: str, on_demand: tuple[str, ...], head: str, group: str
) -> None:
    spec = spec_of(spot={"preset": preset, "fallback": {"afterNoRoom": "20m"}})
    rooms = find_rooms(clouds_nodes(preset), spec, on_demand)
    assert (rooms["head"].node, rooms["cpu"].node) == (head, group)


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        ({"operator": "In", "key": "zone", "values": ["a", "b"]}, "new"),
        ({"operator": "NotIn", "key": "zone", "values": ["a"]}, "none"),
        ({"operator": "Exists", "key": "zone"}, "new"),
        ({"operator": "DoesNotExist", "key": "zone"}, "none"),
        ({"operator": "Gt", "key": "generation", "values": ["5"]}, "new"),
        ({"operator": "Lt", "key": "generation", "values": ["5"]}, "a"),
        ({"operator": "Gt", "key": "zone", "values": ["5"]}, None),
        ({"operator": "NewerThanThis", "key": "zone"}, "none"),
    ],
)
def test_a_node_counts_if_the_affinity_allows_the_pod(expression: Body, node: str | None) -> None:
    nodes = [
        NodeSize("a", 10 * GI, 4, labels={"zone": "a", "generation": "3"}),
        NodeSize("new", 11 * GI, 4, labels={"zone": "a", "generation": "7"}),
        NodeSize("none", 12 * GI, 4, labels={}),
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = find_rooms(nodes, spec_of(podTemplate={"spec": {"affinity": affinity}})).get("cpu")
    assert (found and found.node) == node


def test_an_affinity_may_name_the_node_itself() -> None:
    named = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchFields": [named]}, {}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    nodes = [NodeSize("a", 10 * GI, 4), NodeSize("b", 20 * GI, 4)]
    rooms = find_rooms(nodes, spec_of(podTemplate={"spec": {"affinity": affinity}}))
    assert rooms["cpu"].node == "a"


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/memory-pressure",
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "node.cilium.io/agent-not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "cloud.google.com/impending-node-termination",
    ],
)
def test_temporary_taints_are_ignored(key: str) -> None:
    taint = {"key": key, "value": "1", "effect": "NoSchedule"}
    sizes = [read_size(spell_node("large", "90Gi", taints=[taint])), read_size(spell_node("a"))]
    assert find_rooms(filter(None, sizes), spec_of())["cpu"].node == "large"


def test_pods_with_gpus_tolerate_the_taint_of_nodes_with_gpus() -> None:
    """An admission controller adds the toleration for the GPU taint, so no template has it."""
    taints = (Taint("nvidia.com/gpu", "present", "NoSchedule"),)
    nodes = [NodeSize("gpu", 30 * GI, 8, gpu=2, taints=taints)]
    resources = {"cpu": 1, "memory": "1Gi"}
    assert find_rooms(nodes, spec_of(resources=resources | {"gpu": 1}))["cpu"].node == "gpu"
    assert "cpu" not in find_rooms(nodes, spec_of(resources=resources))


# --- Reading


def test_a_node_is_read_in_kubernetes_notation() -> None:
    sick = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    mild = {"key": "noise", "effect": "PreferNoSchedule"}
    strict = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    node = spell_node("n", "16393584Ki", gpu="2", labels={"a": "b"}, taints=[sick, mild, strict])
    assert read_size(node) == NodeSize("n", 16393584 << 10, 3.92, 2, {"a": "b"}, (GPU_ONLY,))


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"status": None},
        {"status": {"allocatable": {"memory": "much", "cpu": "1"}}},
        {"status": {"allocatable": {"memory": "1Gi", "cpu": "1", "nvidia.com/gpu": "x"}}},
        {"status": {"allocatable": {"memory": [], "cpu": "1"}}, "spec": {"taints": 7}},
    ],
)
def test_a_node_without_a_size_is_skipped(odd: Body) -> None:
    assert read_size(odd) is None


def count_lists(api: FakeApi) -> int:
    return sum((call.verb, call.resource) == ("list", Resource.NODE) for call in api.calls)


def test_nodes_are_read_every_ten_minutes_for_all_pipelines() -> None:
    api, memory = FakeApi(), CapacityMemory()
    api.nodes = {"a": spell_node("a"), "b": None, "c": {"metadata": {"name": "c"}}}

    async def read() -> None:
        sizes = await asyncio.gather(*(memory.read(api, NOW) for _ in range(5)))
        assert [[node_size.name for node_size in size or ()] for size in sizes] == [["a"]] * 5
        assert count_lists(api) == 1
        await memory.read(api, NOW + 599)
        assert count_lists(api) == 1
        await memory.read(api, NOW + 600)
        assert count_lists(api) == 2
        await memory.read(api, NOW - 1)  # the clock was set back
        assert count_lists(api) == 3

    asyncio.run(read())


@pytest.mark.parametrize(
    ("error", "again"),
    [(Forbidden(403, "Forbidden", "no"), 86_400.0), (Unavailable(503, "", "later"), 600.0)],
)
def test_after_a_refused_list_nodes_are_not_read_for_a_while(
    error: Exception, again: float
) -> None:
    api, memory = FakeApi(), CapacityMemory()

    def refuse(call: Any) -> None:
        if call.resource is Resource.NODE:
            raise error

    api.before.append(refuse)

    async def read() -> None:
        for passed in (0.0, 1.0, again - 1):
            assert await memory.read(api, NOW + passed) is None
        assert count_lists(api) == 1
        await memory.read(api, NOW + again)
        assert count_lists(api) == 2

    asyncio.run(read())


# --- When nodes are read


def look(api: FakeApi) -> tuple[NodeSize, ...] | None:
    inputs = Operator(api, Limits()).passes.inputs

    async def run() -> tuple[NodeSize, ...] | None:
        pipeline = await find_pipeline(api, KEY, inputs.cache)
        assert pipeline is not None
        return (await observe(api, pipeline, inputs, NOW)).view.sizes

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("status", "is_killed", "oom", "expected"),
    [
        ({"endTime": "2026-11-21T10:00:00Z"}, True, {}, True),
        ({"endTime": "2026-11-21T10:00:00Z"}, True, {"maxMemory": "64Gi"}, False),
        ({"endTime": "2026-11-21T10:00:00Z"}, False, {}, False),
        ({}, True, {}, False),
    ],
)
def test_nodes_are_read_if_memory_may_have_to_grow(
    status: Body, is_killed: bool, oom: Body, expected: bool
) -> None:
    api = FakeApi()
    api.nodes = {"a": spell_node("a")}
    pipeline = make_pipeline(api.store, oom=oom)
    make_attempt(api.store, pipeline)
    api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", status)
    pod = make_pod(api.store, pipeline, "w", "worker")
    if is_killed:
        ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        killed = {**pod["status"], "containerStatuses": [{"name": "ray-worker", "state": ended}]}
        api.store.put_status(Resource.POD, NAMESPACE, "w", killed)
    assert (look(api) is not None) == expected
    assert count_lists(api) == expected
