"""Pods that stay since their node is lost: which count as gone, and what that tells of an end.

Only a pod whose deletion is overdue counts as gone with its node. One that was not deleted may have
been placed by somebody who knows more, and the cluster deletes it before long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from strandline_api.names import ROLE_LABEL
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence
from strandline_operator.model.nodes import NodeState, NodeView
from strandline_operator.model.objects import Pod
from strandline_operator.model.view import View

Nodes = Mapping[str, NodeView]
_WITHHELD = frozenset({NodeState.SILENT, NodeState.UNREAD})


def part_pods(view: View) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """The pods that may still run, and the last bodies of those that can't."""
    lost = tuple(pod for pod in view.pods if _is_lost(pod, view.nodes))
    living = tuple(pod for pod in view.pods if pod not in lost)
    return living, (*view.gone_pods, *(replace(pod, is_gone=True) for pod in lost))


def find_lost_node(pod: Pod, nodes: Nodes) -> Evidence | None:
    """That a pod's node has taken it away, or keeps it; None for a node that is well."""
    node = nodes.get(pod.node)
    if node is None or not pod.meta.is_deleting:
        return None
    if not (node.state.is_lost or node.state is NodeState.SILENT):
        return None
    role = pod.meta.labels.get(ROLE_LABEL, "pod")
    message = f"node {pod.node} of {role} pod {pod.meta.name} {node.state}"
    details = {"pod": pod.meta.name, "node": pod.node, "role": role, "reason": node.state.name}
    return Evidence(Cause.NODE_LOST, message, "node", details)


def describe_wait(pods: Iterable[Pod], nodes: Nodes) -> str:
    """What is waited for where a node does not say what became of its pods; empty: nothing."""
    kept = [pod for pod in pods if pod.meta.is_deleting and _is_withheld(pod, nodes)]
    if not kept:
        return ""
    name = kept[0].node
    return f"waits for pods of node {name}, which {nodes[name].state}"


def _is_lost(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state.is_lost and pod.meta.is_deleting


def _is_withheld(pod: Pod, nodes: Nodes) -> bool:
    node = nodes.get(pod.node)
    return node is not None and node.state in _WITHHELD
