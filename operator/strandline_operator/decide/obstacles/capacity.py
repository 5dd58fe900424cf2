"""How much memory the largest node has for a pod of each group.

Only what surely keeps a pod away from a node is looked at: selectors, taints, cores and GPUs. So
the answer is rather too much than too little, but for what every node keeps for others. This room
must not know when memory grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from strandline_api.law.memory_growth import MIB
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.ray_cluster import RayNode
from strandline_operator.model.capacity import NodeSize, Taint
from strandline_operator.render.pods.overlay import lay_over

# Every node has pods of the cluster's own, which its allocatable sizes still count as free.
_TENTHS_FOR_US = 9


class FreeCapacity(NamedTuple):
    """What the largest node has for a pod: bytes, and the node's name."""

    memory: int
    node: str


def find_rooms(nodes: Iterable[NodeSize], spec: PipelineSpec) -> dict[str, FreeCapacity]:
    """Return the largest room for a pod of `head` and of each worker group.

    A group that no node is there for is left out: a cluster that makes nodes as they are needed may
    have none of its kind at the moment.
    """
    groups: dict[str, RayNode] = {"head": spec.ray.head}
    groups |= {group.name: group for group in spec.ray.worker_groups}
    sizes, rooms = tuple(nodes), {}
    for name, group in groups.items():
        template = lay_over(dict(spec.ray.pod_template), dict(group.pod_template))
        fitting = [node for node in sizes if _could_hold(node, group, template)]
        # No node of that kind may mean that one is made when a pod asks for it.
        if fitting:
            largest = max(fitting, key=lambda node: (node.memory, node.name))
            ours = largest.memory * _TENTHS_FOR_US // 10
            rooms[name] = FreeCapacity(ours // MIB * MIB, largest.name)
    return rooms


def _could_hold(node: NodeSize, group: RayNode, template: Mapping[str, Any]) -> bool:
    pod = template.get("spec")
    pod = pod if isinstance(pod, Mapping) else {}
    selector, tolerations = pod.get("nodeSelector"), pod.get("tolerations")
    labels = selector if isinstance(selector, Mapping) else {}
    facts = tolerations if isinstance(tolerations, list | tuple) else ()
    return (
        group.resources.cpu <= node.cpu
        and group.resources.gpu <= node.gpu
        and all(node.labels.get(name) == value for name, value in labels.items())
        and all(any(tolerates(toleration, taint) for toleration in facts) for taint in node.taints)
    )


def tolerates(toleration: object, taint: Taint) -> bool:
    """Return whether a toleration lets a pod onto a node with a taint, by Kubernetes' own rules."""
    if not isinstance(toleration, Mapping):
        return False
    if toleration.get("effect") not in {None, "", taint.effect}:
        return False
    key = toleration.get("key") or ""
    # Without a key it tolerates everything.
    if toleration.get("operator") == "Exists":
        return key in {"", taint.key}
    return key == taint.key and (toleration.get("value") or "") == taint.value
