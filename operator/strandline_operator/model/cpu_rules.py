"""CPU rules of a namespace for containers, from its quotas and limit ranges.

A container without a CPU limit may use idle CPU, so the operator sets no limit on containers that
need little CPU. Some namespaces reject pods without limits. This module must not depend on when
rules are read, or on which containers they restrict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_api.notation.quantities import parse_cpu
from strandline_operator.model.objects import read_list, read_mapping

Json = Mapping[str, Any]
# CPU limit in cores for a mostly idle container, if the namespace requires a limit.
_USUAL = 1.0


@dataclass(frozen=True, slots=True)
class CpuRules:
    """CPU rules of a namespace, in cores.

    Attributes:
        is_limit_asked: whether containers without a limit are rejected.
        default: limit that a container without one gets; infinite if there is no default.
        least, most: bounds of a container's request and limit.
        ratio: maximum ratio of a container's limit to its request.
    """

    is_limit_asked: bool = False
    default: float = math.inf
    least: float = 0.0
    most: float = math.inf
    ratio: float = math.inf

    def fit(self, resources: Json) -> dict[str, Any]:
        """Return a container's resources, adjusted to the rules of the namespace.

        Args:
            resources: resources with a CPU request and without a CPU limit.
        """
        cores = parse_cpu(resources["requests"]["cpu"])
        request = min(max(cores, self.least), self.most)
        fitting = dict(resources)
        if request != cores:
            fitting["requests"] = {**resources["requests"], "cpu": _format(request)}
        # Rely on the namespace's default limit, unless it is below this request or a ratio applies.
        is_given = request <= self.default < math.inf and self.ratio == math.inf
        if is_given or not (self.is_limit_asked or self.default < math.inf):
            return fitting
        limit = max(request, min(_USUAL, self.most, request * self.ratio))
        return {**fitting, "limits": {**resources["limits"], "cpu": _format(limit)}}


def read_rules(quotas: Iterable[Json], ranges: Iterable[Json]) -> CpuRules:
    """Return the rules of a namespace, given its ResourceQuotas and LimitRanges.

    Unreadable parts are skipped, because the API server applies the rules anyway.
    """
    items = [
        read_mapping(item)
        for each in ranges
        for item in read_list(read_mapping(each.get("spec")).get("limits"))
    ]
    containers = [item for item in items if item.get("type") == "Container"]
    # A limit for whole pods requires a limit for every container.
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
    # Round down to stay below the maximum.
    return f"{math.floor(cores * 1000 + 1e-6)}m"
