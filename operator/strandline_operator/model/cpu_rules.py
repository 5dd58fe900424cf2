"""What a namespace demands of the CPU of containers, by its quotas and ranges of limits.

A container that names no limit may use what is idle, so ours that only pass something on name none.
Some namespaces let no such pod in. This room must not know when they are asked, nor whose
containers they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_api.notation.quantities import parse_cpu
from strandline_operator.model.objects import read_list, read_mapping

Json = Mapping[str, Any]
# Cores of a container that mostly waits, where it has to name a limit.
_USUAL = 1.0


@dataclass(frozen=True, slots=True)
class CpuRules:
    """Rules of a namespace, in cores.

    Attributes:
        is_limit_asked: a container without a limit is refused.
        default: limit of a container that names none; infinite where it stays without.
        least, most: of a container's request, and of its limit.
        ratio: how many times its request a container's limit may be at most.
    """

    is_limit_asked: bool = False
    default: float = math.inf
    least: float = 0.0
    most: float = math.inf
    ratio: float = math.inf

    def fit(self, resources: Json) -> dict[str, Any]:
        """Return the resources of a container as this namespace lets them in.

        Args:
            resources: with a request for CPU and no limit of it.
        """
        cores = parse_cpu(resources["requests"]["cpu"])
        request = min(max(cores, self.least), self.most)
        fitting = dict(resources)
        if request != cores:
            fitting["requests"] = {**resources["requests"], "cpu": _format(request)}
        # A default does as well, unless it is another than this request may have.
        is_given = request <= self.default < math.inf and self.ratio == math.inf
        if is_given or not (self.is_limit_asked or self.default < math.inf):
            return fitting
        limit = max(request, min(_USUAL, self.most, request * self.ratio))
        return {**fitting, "limits": {**resources["limits"], "cpu": _format(limit)}}


def read_rules(quotas: Iterable[Json], ranges: Iterable[Json]) -> CpuRules:
    """Return the rules of a namespace from its ResourceQuotas and LimitRanges.

    What can't be read of them is passed over: the API server reads them itself.
    """
    items = [
        read_mapping(item)
        for each in ranges
        for item in read_list(read_mapping(each.get("spec")).get("limits"))
    ]
    containers = [item for item in items if item.get("type") == "Container"]
    # A bound of a whole pod asks each of its containers for a limit.
    bounding = [item for item in items if item.get("type") in {"Container", "Pod"}]
    ratios = list(_list_cpu(bounding, "maxLimitRequestRatio"))
    is_bounded = bool(ratios) or any(_list_cpu(bounding, "max"))
    hard = (read_mapping(read_mapping(quota.get("spec")).get("hard")) for quota in quotas)
    return CpuRules(
        is_limit_asked=is_bounded or any("limits.cpu" in amounts for amounts in hard),
        default=min(_list_cpu(containers, "default"), default=math.inf),
        least=max(_list_cpu(containers, "min"), default=0.0),
        most=min(_list_cpu(containers, "max"), default=math.inf),
        ratio=min(ratios, default=math.inf),
    )


def _list_cpu(items: Iterable[Json], name: str) -> Iterator[float]:
    for item in items:
        try:
            yield parse_cpu(read_mapping(item.get(name))["cpu"])
        except (KeyError, ValueError):
            continue


def _format(cores: float) -> str:
    # Rounded down, so that it stays within whatever bounds it.
    return f"{math.floor(cores * 1000 + 1e-6)}m"
