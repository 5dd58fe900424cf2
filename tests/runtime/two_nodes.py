"""A program that checks where workers and calls go on a local cluster of two nodes.

Ray connects once per process, so this program cannot share the Ray of other tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import ray
from ray.experimental import get_local_object_locations
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from engine_stages import Identity
from local_clusters import STORE, join_local_cluster
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import Plain, pack_tasks
from strandline.engine.core.pools import CALLS_PER_WORKER
from strandline.engine.core.worker_pool import Pool
from strandline.engine.core.workers import Worker
from strandline.engine.flow.chains import list_apart
from strandline.engine.ray.pool import RayPools
from strandline.plan.pipeline import StagePlan
from strandline.plan.task import Lineage, Task
from strandline.storage.outputs.ports import OutputLocation

TIMEOUT = 120.0
SIZE = 5_000_000
CPU = 0.1


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def make_block(number: int) -> list[Plain]:
    """Return a block with a task that is too large to travel with a call."""
    token = number.to_bytes(16, "big")
    return pack_tasks([Task(b"1" * SIZE, {}, Lineage(token, token, str(number)))])


def make_slot(number: int, node: str) -> Slot:
    """Return a task whose data is on the given node."""
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    block = make_block.options(scheduling_strategy=where).remote(number)
    ray.wait([block], timeout=TIMEOUT, fetch_local=False)
    end = time.monotonic() + TIMEOUT
    while not get_local_object_locations([block])[block].get("node_ids"):
        assert time.monotonic() < end  # the block is ready before its location is known
        time.sleep(0.01)
    token = number.to_bytes(16, "big")
    return Slot(token, str(number), token, None, block, 0)


def take_ready(pools: RayPools, here: str) -> None:
    """Wait until all starting workers are ready."""
    while pools.preparing:
        (reference,), _ = ray.wait(list(pools.preparing), timeout=TIMEOUT)
        pools.take_ready(reference, ray.get(reference), here)


def take_answers(pools: RayPools) -> None:
    """Wait for all calls."""
    while pools.calls:
        (reference,), _ = ray.wait(list(pools.calls), timeout=TIMEOUT)
        pools.take_answer(reference, ray.get(reference))


def check_placement(pools: RayPools, pool: Pool, here: str, nodes: list[str]) -> None:
    """Check that a worker starts on the requested node."""
    for node in nodes:
        pools.start_worker(0, CPU, node)
    take_ready(pools, here)
    assert sorted(worker.node for worker in pool.workers) == nodes
    assert sum(worker.is_here for worker in pool.workers) == 1


def check_calls(pools: RayPools, pool: Pool, nodes: list[str]) -> None:
    """Check that calls go to the node of their input, or to an idle worker if that node is busy."""
    for number, node in enumerate([*nodes, *nodes, nodes[1]]):
        pools.submit(0, [make_slot(number, node)], CALLS_PER_WORKER)
        (call,) = pools.calls.values()
        assert call.worker.node == node, (number, node)
        take_answers(pools)
    for number in (10, 11, 12):
        pools.submit(0, [make_slot(number, nodes[1])], CALLS_PER_WORKER)
    assert [len(worker.calls) for worker in _by_node(pool, nodes)] == [1, 2]
    take_answers(pools)


def check_drain(pools: RayPools, pool: Pool, here: str, nodes: list[str]) -> None:
    """Check that a drained worker takes no more calls and ends, and where new workers start."""
    first, second = _by_node(pool, nodes)
    pools.submit(0, [make_slot(20, nodes[1])], CALLS_PER_WORKER)
    pools.drain(second)
    assert pools.has(second)
    pools.submit(0, [make_slot(21, nodes[1])], CALLS_PER_WORKER)
    assert [len(worker.calls) for worker in (first, second)] == [1, 1]
    assert pool.look(0.0).draining == 1
    take_answers(pools)
    assert pool.workers == [first]
    for node in nodes:
        pools.start_worker(0, CPU, node)
        take_ready(pools, here)
        assert pool.workers[-1].node == node
    state = pool.look(0.0)
    assert (state.workers, state.ready, state.draining) == (3, 3, 0)
    assert (state.started, state.lost, state.recycled) == (4, 0, 0)


def _by_node(pool: Pool, nodes: list[str]) -> list[Worker]:
    return sorted(pool.workers, key=lambda worker: nodes.index(worker.node))


def main() -> None:
    """Run all checks in sequence."""
    with join_local_cluster(2) as (cluster, folder):
        cluster.add_node(num_cpus=2, object_store_memory=STORE)
        here = ray.get_runtime_context().get_node_id()
        nodes = sorted(node["NodeID"] for node in ray.nodes())
        plan = StagePlan("told", "told", Identity())
        pools = RayPools("tests.nodes", list_apart([plan]), OutputLocation(str(folder)))
        checks: list[Callable[[], None]] = [
            lambda: check_placement(pools, pools[0], here, nodes),
            lambda: check_calls(pools, pools[0], nodes),
            lambda: check_drain(pools, pools[0], here, nodes),
            pools.stop,
        ]
        for check in checks:
            check()


if __name__ == "__main__":
    main()
