"""Memory requests after memory kills: raised, limited, lowered again, and reported."""

from __future__ import annotations

from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import SpotGroup, parse_status
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.plan import Resource

GI = 2**30
OOM = {"name": "ray-worker", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose first attempt is running, with 8 GiB per pod of the group `cpu`."""
    cluster = SimulatedCluster.running()
    cluster.edit(retry={"maxRetries": 50, "jitter": "none"})
    cluster.settle()
    return cluster


def kill(cluster: SimulatedCluster) -> None:
    """Kill a worker of the newest attempt for memory, and tear the attempt down."""
    cluster.set_pod("cpu", containerStatuses=[OOM])
    cluster.settle()
    cluster.finish_teardown()


def kill_again(cluster: SimulatedCluster, times: int) -> None:
    for _ in range(times):
        cluster.run_next()
        kill(cluster)


def ask(cluster: SimulatedCluster, memory: str, **more: Any) -> None:
    group = {"name": "cpu", "resources": {"memory": memory}, **more}
    cluster.edit(ray={"workerGroups": [group]})


def given(cluster: SimulatedCluster) -> int:
    """Return the memory in bytes that a worker pod of the current attempt has."""
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    (group,) = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    return int(container["resources"]["limits"]["memory"])


def told(cluster: SimulatedCluster, reason: EventReason) -> list[str]:
    return [event.message for event in cluster.events if event.reason == reason]


def test_a_lowered_limit_applies_to_the_next_attempt(cluster: SimulatedCluster) -> None:
    kill(cluster)
    kill_again(cluster, 2)
    assert cluster.status.memory == {"cpu": "27648Mi"}
    cluster.edit(oom={"maxMemory": "10Gi"})
    cluster.settle()
    assert cluster.status.memory == {"cpu": "10240Mi"}
    cluster.run_next()
    assert given(cluster) == 10 * GI
    kill(cluster)
    assert cluster.status.memory == {"cpu": "10240Mi"}
    assert "memory of cpu is limited to 10240Mi by oom.maxMemory" in cluster.status.state
    cluster.edit(oom={"maxMemory": "4Gi"})  # less than the request, so the request applies
    cluster.run_next()
    assert given(cluster) == 8 * GI
    assert cluster.attempts["corpus-5"][0]["spec"].get("memory", {}) == {}


def test_a_new_run_starts_with_the_requested_memory(cluster: SimulatedCluster) -> None:
    kill(cluster)
    cluster.run_next()
    cluster.finish()
    assert cluster.status.memory == {"cpu": "12288Mi"}
    cluster.edit(runId="second")
    cluster.settle()
    assert cluster.status.memory == {}
    assert given(cluster) == 8 * GI


@pytest.mark.parametrize("memory", ["2Gi", "10Gi", "20Gi"])
def test_an_edited_request_replaces_raised_memory(cluster: SimulatedCluster, memory: str) -> None:
    kill(cluster)
    ask(cluster, memory)
    cluster.settle()
    assert cluster.status.memory == {}
    cluster.run_next()
    assert given(cluster) == int(memory.removesuffix("Gi")) * GI


def test_an_unrelated_edit_keeps_raised_memory(cluster: SimulatedCluster) -> None:
    kill(cluster)
    ask(cluster, "8192Mi", maxReplicas=4)  # the same amount in another unit
    cluster.run_next()
    assert given(cluster) == 12 * GI


def test_memory_raised_by_an_earlier_operator_stays(cluster: SimulatedCluster) -> None:
    kill(cluster)
    written = cluster.status.to_json()
    del written["memoryRequested"]
    cluster.status = parse_status(written)
    cluster.run_next()
    assert given(cluster) == 12 * GI


def test_memory_does_not_grow_beyond_the_largest_node(cluster: SimulatedCluster) -> None:
    cluster.sizes = (NodeSize("small", 12 * GI, 4), NodeSize("large", 20 * GI, 4))
    kill(cluster)
    assert told(cluster, EventReason.MEMORY_LIMITED) == []
    kill_again(cluster, 1)
    why = "is limited to 18432Mi, the most that the largest suitable node can hold (large)"
    assert cluster.status.memory == {"cpu": "18432Mi"}
    assert told(cluster, EventReason.MEMORY_LIMITED) == []  # the limit is reached, but not exceeded
    kill_again(cluster, 1)
    assert cluster.status.memory == {"cpu": "18432Mi"}
    assert why in told(cluster, EventReason.MEMORY_LIMITED)[0]
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    assert condition.message.startswith("retry 3 of 50 at ")
    assert why in condition.message
    assert len(told(cluster, EventReason.MEMORY_RAISED)) == 2
    # Without the large node, the memory stays at the value that pods already had.
    cluster.sizes = (NodeSize("small", 12 * GI, 4),)
    kill_again(cluster, 1)
    assert cluster.status.memory == {"cpu": "18432Mi"}


def test_the_final_message_of_a_run_reports_the_memory_limit() -> None:
    cluster = SimulatedCluster.running()
    cluster.edit(retry={"maxRetries": 1, "jitter": "none"})
    cluster.sizes = (NodeSize("only", 9 * GI, 4),)
    kill(cluster)
    kill_again(cluster, 1)
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "OOMKilled")
    assert "memory of cpu is limited to 8294Mi, the most that" in condition.message


def test_nodes_do_not_lower_an_explicit_limit(cluster: SimulatedCluster) -> None:
    """An explicit limit may exceed all nodes, because larger nodes may be created on demand."""
    cluster.edit(oom={"maxMemory": "64Gi"})
    cluster.sizes = (NodeSize("only", 9 * GI, 4),)
    kill(cluster)
    assert cluster.status.memory == {"cpu": "12288Mi"}


def test_without_permission_to_list_nodes_no_message_mentions_them(
    cluster: SimulatedCluster,
) -> None:
    kill(cluster)
    assert cluster.status.memory == {"cpu": "12288Mi"}
    assert told(cluster, EventReason.MEMORY_LIMITED) == []
    assert "node" not in cluster.status.state


SPOT_NODE = NodeSize("spot", 100 * GI, 4, labels={"eks.amazonaws.com/capacityType": "SPOT"})
REGULAR = NodeSize("regular", 20 * GI, 4, labels={"eks.amazonaws.com/capacityType": "ON_DEMAND"})


def test_a_head_does_not_grow_beyond_its_usable_nodes(cluster: SimulatedCluster) -> None:
    spot = {"preset": "eks"}
    groups = [{"name": "cpu", "resources": {"memory": "8Gi"}, "spot": spot}]
    cluster.edit(ray={"head": {"resources": {"memory": "8Gi"}}, "workerGroups": groups})
    cluster.sizes = (SPOT_NODE, REGULAR)
    for _ in range(4):
        cluster.set_pod("head", containerStatuses=[OOM | {"name": "ray-head"}])
        cluster.fail_attempt()
        cluster.run_next()
    assert cluster.status.memory == {"head": "18432Mi"}
    kill(cluster)
    kill_again(cluster, 3)
    assert cluster.status.memory == {"head": "18432Mi", "cpu": "41472Mi"}


def test_a_group_after_its_fallback_grows_up_to_on_demand_nodes(
    cluster: SimulatedCluster,
) -> None:
    spot = {"preset": "eks", "fallback": {"afterDisruptions": 1}}
    ask(cluster, "8Gi", spot=spot)
    cluster.status = cluster.status.model_copy(
        update={"spot": (SpotGroup(name="cpu", disruptions=1, on_demand_since=cluster.time),)}
    )
    cluster.sizes = (SPOT_NODE, REGULAR)
    kill(cluster)
    kill_again(cluster, 3)
    assert cluster.status.memory == {"cpu": "18432Mi"}


@pytest.mark.parametrize("sizes", [None, (), (NodeSize("tiny", 2 * GI, 0.1),)])
def test_growth_is_limited_without_known_nodes(cluster: SimulatedCluster, sizes: Any) -> None:
    """Cover nodes that cannot be listed, no nodes, and nodes that are all too small."""
    cluster.sizes = sizes
    kill(cluster)
    kill_again(cluster, 9)
    assert cluster.status.memory == {"cpu": f"{8 * 8 * 1024}Mi"}
    why = "memory of cpu is limited to 65536Mi, 8 times its request"
    assert why in told(cluster, EventReason.MEMORY_LIMITED)[0]
    cluster.edit(oom={"maxMemory": "100Gi"})
    kill_again(cluster, 1)
    assert cluster.status.memory == {"cpu": "98304Mi"}
