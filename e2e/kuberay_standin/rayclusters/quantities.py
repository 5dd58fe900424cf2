"""Parses and formats Kubernetes quantities, such as `50m` and `1536Mi`, and sums requests.

This module does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal

from kuberay_standin.objects import Json

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}


def read_quantity(text: str | float) -> Decimal:
    """Parse a quantity."""
    rendered = str(text)
    if rendered[-2:] in BINARY:
        return Decimal(rendered[:-2]) * BINARY[rendered[-2:]]
    if rendered[-1:] in DECIMAL:
        return Decimal(rendered[:-1]) * DECIMAL[rendered[-1]]
    return Decimal(rendered)


def format_count(amount: Decimal) -> str:
    """Format a number of CPUs or devices: `2`, or `100m`."""
    whole = amount == amount.to_integral_value()
    return str(int(amount)) if whole else f"{math.ceil(amount * 1000)}m"


def format_bytes(amount: Decimal) -> str:
    """Format bytes with the largest binary suffix that leaves a whole number."""
    count = math.ceil(amount)
    fitting = [suffix for suffix, size in BINARY.items() if count and count % size == 0]
    return f"{count // BINARY[fitting[-1]]}{fitting[-1]}" if fitting else str(count)


def sum_requests(spec: Json, resource: str) -> Decimal:
    """Sum the requests of a pod's containers. A limit counts if a container has no request."""
    return sum((_find(container, resource) for container in spec["containers"]), Decimal(0))


def sum_devices(specs: Iterable[Json], suffix: str) -> Decimal:
    """Sum the pods' requests for resources whose names end with this suffix, such as `gpu`."""
    named = [(spec, name) for spec in specs for name in _name_resources(spec)]
    return sum(
        (sum_requests(spec, name) for spec, name in named if name.endswith(suffix)), Decimal()
    )


def _name_resources(spec: Json) -> set[str]:
    parts = [container.get("resources", {}) for container in spec["containers"]]
    return {
        name for part in parts for kind in ("requests", "limits") for name in part.get(kind, {})
    }


def _find(container: Json, resource: str) -> Decimal:
    resources = container.get("resources", {})
    found = resources.get("requests", {}).get(
        resource, resources.get("limits", {}).get(resource, 0)
    )
    return read_quantity(found)
