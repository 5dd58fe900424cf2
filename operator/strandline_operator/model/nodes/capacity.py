"""What nodes have for pods, and which pods they let in.

One answer to "may this pod run on that node?", for all that ask. This room must not know when nodes
are looked at, nor what follows from the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline_api.notation.quantities import parse_cpu, parse_memory
from strandline_operator.model.objects import read_list, read_mapping
from strandline_operator.model.pod_requests import GPU, PodRequest

# Taints that come and go with a node's health, or with its end; the node is there all the same.
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
    """Why pods stay away from a node, unless they tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeSize:
    """A node.

    Attributes:
        memory: bytes that pods may ask for.
        cpu, gpu: cores and whole GPUs that they may.
    """

    name: str
    memory: int
    cpu: float
    gpu: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


def read_size(body: Mapping[str, Any]) -> NodeSize | None:
    """Return a node from its object; None where it does not say what it has."""
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
    """Return whether it keeps pods away for good; `PreferNoSchedule` keeps none away."""
    return taint.effect in {"NoSchedule", "NoExecute"} and not is_passing(taint.key)


def is_passing(taint: str) -> bool:
    """Return whether a taint of this name says that a node is not well, or not ready yet."""
    return taint.startswith(_PASSING_TAINTS) or _READY_LATER.search(taint) is not None


def can_hold(node: NodeSize, request: PodRequest, share: float = 1.0) -> bool:
    """Return whether a node is large enough for a pod that may run there.

    Args:
        share: of the node's cores and memory that a pod may have.
    """
    return (
        request.cpu <= node.cpu * share
        and request.memory <= node.memory * share
        and request.gpu <= node.gpu
        and may_run(request, node)
    )


def may_run(request: PodRequest, node: NodeSize) -> bool:
    """Return whether a pod's selector, node affinity, and tolerations let it run on a node.

    What is of another shape than Kubernetes' keeps no pod away.
    """
    return (
        all(node.labels.get(name) == value for name, value in request.selector.items())
        and (not request.terms or any(_meets(term, node) for term in request.terms))
        and all(
            any(tolerates(each, taint) for each in request.tolerations) for taint in node.taints
        )
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


def _meets(term: Mapping[str, Any], node: NodeSize) -> bool:
    """Return whether a node meets a term of a required affinity; an empty term fits no node."""
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
    # An operator of a newer Kubernetes may let the pod in.
    return outcomes.get(operator, True) if isinstance(operator, str) else True


def _compare(label: str | None, values: list[Any]) -> int:
    """Compare a label with the one number of an expression; 0 where either is no number."""
    try:
        (value,) = values
        number, limit = int(label or ""), int(value)
    except (TypeError, ValueError):
        return 0
    return (number > limit) - (number < limit)
