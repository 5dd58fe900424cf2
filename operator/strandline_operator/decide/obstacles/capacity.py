"""How much memory the largest node has for a pod of each group.

Only what surely keeps a pod away from a node is looked at: selectors, affinity, taints, cores and
GPUs. So the answer is rather too much than too little, but for what every node keeps for others.
This room must not know when memory grows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from strandline_api.law.memory_growth import MIB
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.ray_cluster import RayCluster, RayNode
from strandline_operator.model.nodes.capacity import NodeSize, can_hold
from strandline_operator.model.objects import read_mapping
from strandline_operator.model.pod_requests import GPU, PodRequest
from strandline_operator.render.pods.overlay import lay_over
from strandline_operator.render.pods.spot import HEAD, apply_choice, choose_nodes

# Every node has pods of the cluster's own, which its allocatable sizes still count as free.
_TENTHS_FOR_US = 9
_GPU_TOLERATION = {"key": GPU, "operator": "Exists"}


class FreeCapacity(NamedTuple):
    """What the largest node has for a pod: bytes, and the node's name."""

    memory: int
    node: str


def find_rooms(
    nodes: Iterable[NodeSize], spec: PipelineSpec, on_demand: Collection[str] = ()
) -> dict[str, FreeCapacity]:
    """Return the largest room for a pod of `head` and of each worker group.

    A group that no node is there for is left out: a cluster that makes nodes as they are needed may
    have none of its kind at the moment.

    Args:
        on_demand: head and groups that use nodes on demand instead of spot nodes.
    """
    groups: dict[str, RayNode] = {HEAD: spec.ray.head}
    groups |= {group.name: group for group in spec.ray.worker_groups}
    sizes, rooms = tuple(nodes), {}
    for name, group in groups.items():
        request = _request(spec.ray, group, name, on_demand)
        fitting = [node for node in sizes if can_hold(node, request)]
        # No node of that kind may mean that one is made when a pod asks for it.
        if fitting:
            largest = max(fitting, key=lambda node: (node.memory, node.name))
            ours = largest.memory * _TENTHS_FOR_US // 10
            rooms[name] = FreeCapacity(ours // MIB * MIB, largest.name)
    return rooms


def _request(ray: RayCluster, group: RayNode, name: str, on_demand: Collection[str]) -> PodRequest:
    """Return what a pod of a group asks of its node, whatever memory it gets."""
    template = lay_over(dict(ray.pod_template), dict(group.pod_template))
    pod = read_mapping(template.get("spec"))
    apply_choice(pod, choose_nodes(ray, on_demand, None if name == HEAD else name))
    request, resources = PodRequest.read(pod), group.resources
    # Clusters with GPUs add this toleration to the pods that request one.
    added = (_GPU_TOLERATION,) if resources.gpu else ()
    tolerations = (*request.tolerations, *added)
    return replace(request, cpu=resources.cpu, memory=0, gpu=resources.gpu, tolerations=tolerations)
