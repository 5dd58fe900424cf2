"""Requirements of a pod for its node: cores, memory, GPUs, and node constraints.

Sums follow the scheduler's rules and use the stored pod, which includes changes by cluster
policies. This module must not depend on existing nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strandline_api.notation.quantities import format_memory, parse_cpu, parse_memory

GPU = "nvidia.com/gpu"
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class PodRequest:
    """Resources and node constraints of a pod.

    Attributes:
        cpu, memory, gpu: total cores, bytes, and whole GPUs of its containers.
        selector: required labels of its node.
        tolerations: tolerations as in the pod.
        terms: terms of the required node affinity. The node must match one term; empty for no
            constraint.
    """

    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    terms: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> PodRequest:
        """Return the requirements in a pod's spec. Invalid parts count as zero."""
        asks = [_read_container(each) for each in _list(spec.get("containers"))]
        # Init containers run one after another, before the regular containers, so use their
        # maximum.
        first = [_read_container(each) for each in _list(spec.get("initContainers"))]
        totals = [sum(parts) for parts in zip(*asks, strict=True)] or [0, 0, 0]
        cpu, memory, gpu = (
            max([total, *(each[at] for each in first)]) for at, total in enumerate(totals)
        )
        selector = spec.get("nodeSelector")
        return cls(
            cpu=float(cpu),
            memory=int(memory),
            gpu=int(gpu),
            selector={str(name): str(value) for name, value in selector.items()}
            if isinstance(selector, Mapping)
            else {},
            tolerations=tuple(_list(spec.get("tolerations"))),
            terms=tuple(_list_terms(spec)),
        )

    def describe(self) -> str:
        """Describe the request, for example `4 CPU, 8Gi of memory, a node with pool=spot`."""
        parts = [f"{self.cpu:g} CPU"] if self.cpu else []
        # Round to MiB, because injected containers lead to odd numbers of bytes.
        size = self.memory if self.memory < MIB else self.memory // MIB * MIB
        parts += [f"{format_memory(size)} of memory"] if self.memory else []
        parts += [f"{self.gpu} GPU{'s' if self.gpu > 1 else ''}"] if self.gpu else []
        labels = (f"{name}={value}" for name, value in sorted(self.selector.items()))
        parts += [f"a node with {' and '.join(labels)}"] if self.selector else []
        return ", ".join(parts)


def _read_container(container: Mapping[str, Any]) -> tuple[float, int, int]:
    resources = container.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    # If a container has no request, Kubernetes uses its limit.
    amounts: dict[str, Any] = {}
    for kind in ("limits", "requests"):
        part = resources.get(kind)
        amounts |= part if isinstance(part, Mapping) else {}
    cpu = _parse(parse_cpu, amounts.get("cpu"))
    memory = _parse(parse_memory, amounts.get("memory"))
    return float(cpu), int(memory), int(_parse(parse_cpu, amounts.get(GPU)))


def _parse(parse: Callable[[object], float], value: object) -> float:
    try:
        return float(parse(value)) if value is not None else 0.0
    except ValueError:
        return 0.0


def _list_terms(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    part: object = spec
    for name in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return _list(part.get("nodeSelectorTerms")) if isinstance(part, Mapping) else []


def _list(value: object) -> list[Mapping[str, Any]]:
    entries = value if isinstance(value, list | tuple) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]
