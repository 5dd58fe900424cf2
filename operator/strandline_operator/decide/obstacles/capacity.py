"""Computes how much memory the largest matching node can offer to a pod of each group.

Only hard constraints count: selectors, affinity, taints, cores, and GPUs. Except for a reserve for
other pods, the result therefore errs on the high side. This module must not depend on the rules for
raising memory.
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

# Tenths of a node's allocatable memory that a pod can use. Every node also runs system pods.
_TENTHS_FOR_US = 9
_GPU_TOLERATION = {"key": GPU, "operator": "Exists"}


class FreeCapacity(NamedTuple):
    """Memory in bytes that a pod can get, and the name of the node that offers it."""

    memory: int
    node: str


def find_rooms(
    nodes: Iterable[NodeSize], spec: PipelineSpec, on_demand: Collection[str] = ()
) -> dict[str, FreeCapacity]:
    """Return the largest capacity for a pod of `head` and of each worker group.

    Groups without a matching node are omitted, because an autoscaled cluster may add such a node
    later.

    Args:
        on_demand: pod groups (`head` or worker groups) that use on-demand nodes instead of spot
            nodes.
    """
    groups: dict[str, RayNode] = {HEAD: spec.ray.head}
    groups |= {group.name: group for group in spec.ray.worker_groups}
    sizes, rooms = tuple(nodes), {}
    for name, group in groups.items():
        request = _request(spec.ray, group, name, on_demand)
        fitting = [node for node in sizes if can_hold(node, request)]
        # Without a matching node, the limit is unknown: an autoscaler may create such a node on
        # demand.
        if fitting:
            largest = max(fitting, key=lambda node: (node.memory, node.name))
            ours = largest.memory * _TENTHS_FOR_US // 10
            rooms[name] = FreeCapacity(ours // MIB * MIB, largest.name)
    return rooms


def _request(ray: RayCluster, group: RayNode, name: str, on_demand: Collection[str]) -> PodRequest:
    """Return the requirements of a group's pod on a node, without memory."""
    template = lay_over(dict(ray.pod_template), dict(group.pod_template))
    pod = read_mapping(template.get("spec"))
    apply_choice(pod, choose_nodes(ray, on_demand, None if name == HEAD else name))
    request, resources = PodRequest.read(pod), group.resources
    # Clusters with GPUs add this toleration to pods that request a GPU.
    added = (_GPU_TOLERATION,) if resources.gpu else ()
    tolerations = (*request.tolerations, *added)
    return replace(request, cpu=resources.cpu, memory=0, gpu=resources.gpu, tolerations=tolerations)
