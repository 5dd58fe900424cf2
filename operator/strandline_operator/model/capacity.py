"""What nodes have for pods, and which pods they let in, as plain data.

This room must not know when nodes are looked at, nor what follows from their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline_api.quantities import parse_cpu, parse_memory
from strandline_operator.model.objects import read_mapping
from strandline_operator.model.pod_requests import GPU

# Taints that come and go with a node's health; such a node is there all the same.
_PASSING = "node.kubernetes.io/"


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
    is_strict = taint.effect in {"NoSchedule", "NoExecute"}
    return is_strict and not taint.key.startswith(_PASSING)
