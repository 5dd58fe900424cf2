"""What a pod asks of a node: cores, memory, GPUs, and the nodes that it lets itself be put on.

Read as a scheduler adds it up, from a pod's own body: what a policy of the cluster changed in it is
in there too. This room must not know which nodes there are.
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
    """Resources and nodes that a pod requests.

    Attributes:
        cpu, memory, gpu: cores, bytes and whole GPUs of all its containers.
        selector: labels that its node must have.
        tolerations: as they stand in the pod.
        terms: of the node affinity that is required, one of which its node must meet; empty where
            none is required.
    """

    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    terms: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> PodRequest:
        """Return the request of a pod's spec; what can't be read of it counts as nothing."""
        asks = [_read_container(each) for each in _list(spec.get("containers"))]
        # Init containers run one after the other, before all the rest.
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
        """Describe it: `4 CPU, 8Gi of memory, 1 GPU, a node with pool=spot`; empty for nothing."""
        parts = [f"{self.cpu:g} CPU"] if self.cpu else []
        # Init containers and sidecars of others make odd numbers of bytes.
        size = self.memory if self.memory < MIB else self.memory // MIB * MIB
        parts += [f"{format_memory(size)} of memory"] if self.memory else []
        parts += [f"{self.gpu} GPU{'s' if self.gpu > 1 else ''}"] if self.gpu else []
        labels = (f"{name}={value}" for name, value in sorted(self.selector.items()))
        parts += [f"a node with {' and '.join(labels)}"] if self.selector else []
        return ", ".join(parts)


def _read_container(container: Mapping[str, Any]) -> tuple[float, int, int]:
    resources = container.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    # A limit stands for a request that is left out.
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
