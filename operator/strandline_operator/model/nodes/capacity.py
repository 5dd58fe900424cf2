"""Capacity of nodes, and the check whether a pod may run on a node.

All code that needs this check uses this module. The module must not depend on when nodes are read,
or on how the result is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline_api.notation.quantities import parse_cpu, parse_memory
from strandline_operator.model.objects import read_list, read_mapping
from strandline_operator.model.pod_requests import GPU, PodRequest

# Temporary taints, which depend on a node's health or shutdown. The node exists regardless.
_PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/",
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
    "remediator.",
)
_READY_LATER = re.compile(r"agent-not-ready|not-ready$")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint, which keeps pods that do not tolerate it off a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node's capacity for pods.

    Attributes:
        memory: allocatable bytes.
        cpu, gpu: allocatable cores and whole GPUs.
        taints: permanent taints.
    """

    name: str
    memory: int
    cpu: float
    gpu: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def read_size(body: Mapping[str, Any]) -> NodeSize | None:
    """Return the size of a node, or None if the node object contains no sizes."""
    metadata, spec, status = (
        read_mapping(body.get(part)) for part in ("metadata", "spec", "status")
    )
    allocatable = read_mapping(status.get("allocatable"))
    try:
        memory, cpu = parse_memory(allocatable["memory"]), parse_cpu(allocatable["cpu"])
        gpu = int(allocatable.get(GPU, 0))
    except (KeyError, TypeError, ValueError):
        return None
    facts = spec.get("taints")
    taints = [read_mapping(taint) for taint in facts] if isinstance(facts, list) else []
    return NodeSize(
        name=str(metadata.get("name", "")),
        memory=memory,
        cpu=cpu,
        gpu=gpu,
        labels={
            str(name): str(value) for name, value in read_mapping(metadata.get("labels")).items()
        },
        taints=tuple(filter(_is_kept, map(_read_taint, taints))),
    )


def _read_taint(body: Mapping[str, Any]) -> Taint:
    return Taint(*(str(body.get(name, "")) for name in ("key", "value", "effect")))


def _is_kept(taint: Taint) -> bool:
    """Return True if a taint keeps pods away permanently. `PreferNoSchedule` does not."""
    return taint.effect in {"NoSchedule", "NoExecute"} and not is_passing(taint.key)


def is_passing(taint: str) -> bool:
    """Return True if a taint of this name means that a node is unhealthy or not ready yet."""
    return taint.startswith(_PASSING_TAINTS) or _READY_LATER.search(taint) is not None


def can_hold(node: NodeSize, request: PodRequest, share: float = 1.0) -> bool:
    """Return True if a pod may run on a node, and the node is large enough.

    Args:
        share: share of the node's cores and memory that is available to the pod.
    """
    return (
        request.cpu <= node.cpu * share
        and request.memory <= node.memory * share
        and request.gpu <= node.gpu
        and may_run(request, node)
    )


def may_run(request: PodRequest, node: NodeSize) -> bool:
    """Return True if a pod's selector, node affinity, and tolerations allow a node.

    Invalid constraints are ignored.
    """
    return (
        all(node.labels.get(name) == value for name, value in request.selector.items())
        and (not request.terms or any(_meets(term, node) for term in request.terms))
        and all(
            any(tolerates(each, taint) for each in request.tolerations) for taint in node.taints
        )
    )


def tolerates(toleration: object, taint: Taint) -> bool:
    """Return True if a toleration matches a taint, according to Kubernetes' rules."""
    if not isinstance(toleration, Mapping):
        return False
    if toleration.get("effect") not in {None, "", taint.effect}:
        return False
    key = toleration.get("key") or ""
    # A toleration without a key matches all taints.
    if toleration.get("operator") == "Exists":
        return key in {"", taint.key}
    return key == taint.key and (toleration.get("value") or "") == taint.value


def _meets(term: Mapping[str, Any], node: NodeSize) -> bool:
    """Return True if a node satisfies a required affinity term. An empty term matches no node."""
    expressions = read_list(term.get("matchExpressions"))
    fields = read_list(term.get("matchFields"))
    return bool(expressions or fields) and (
        all(_matches(each, node.labels) for each in expressions)
        and all(_matches(each, {"metadata.name": node.name}) for each in fields)
    )


def _matches(expression: object, labels: Mapping[str, str]) -> bool:
    facts = read_mapping(expression)
    name, operator, values = facts.get("key"), facts.get("operator"), read_list(facts.get("values"))
    label = labels.get(name) if isinstance(name, str) else None
    outcomes = {
        "In": label in values,
        "NotIn": label not in values,
        "Exists": label is not None,
        "DoesNotExist": label is None,
        "Gt": _compare(label, values) > 0,
        "Lt": _compare(label, values) < 0,
    }
    # Unknown operators match, because a newer Kubernetes may add operators.
    return outcomes.get(operator, True) if isinstance(operator, str) else True


def _compare(label: str | None, values: list[Any]) -> int:
    """Compare a label with the number in an expression. Return 0 if either is invalid."""
    try:
        (value,) = values
        number, limit = int(label or ""), int(value)
    except (TypeError, ValueError):
        return 0
    return (number > limit) - (number < limit)
