"""Formats the planner's messages.

This module has no side effects, and must not depend on the planning algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence

from strandline.engine.autoscaler.model import NodeResources

GIBIBYTE = 2**30
MOST_NAMES = 3


def describe_growth(name: str, count: int, reason: str) -> str:
    """Describe why workers start."""
    return f"{count} more {_name_workers(count)} for {name!r}: {reason}"


def describe_shrink(name: str, count: int, reason: str) -> str:
    """Describe why workers drain."""
    return f"{count} fewer {_name_workers(count)} for {name!r}: {reason}"


def describe_floor(floor: int) -> str:
    """Describe a pool that was below its minimum."""
    return f"it keeps at least {floor}"


def describe_share() -> str:
    """Describe a pool whose speed is unknown."""
    return "its speed is still unknown, so it gets an equal share"


def describe_pace(level: float, pace: float, slowest: float, setter: str) -> str:
    """Describe a pool that grows into free capacity.

    Args:
        level: the pool's current rate in sources per second.
        pace, slowest: rate of the slowest stage before and after the change.
        setter: the name of the slowest stage after the change.
    """
    if level <= pace:
        return f"it sets the pace at {describe_rate(level)}"
    if level < slowest:
        return f"it would limit the run to {describe_rate(level)}"
    return f"it should stay slightly faster than {setter!r}, which sets the pace"


def describe_exchange(takers: Sequence[str], pace: float, after: float) -> str:
    """Describe a pool that shrinks so that slower pools can grow."""
    rise = f"the pace rises from {_round(pace)} to {describe_rate(after)}"
    return f"{_name(takers)} {_get(takers)} its resources, and {rise}"


def describe_missing_floor(takers: Sequence[str]) -> str:
    """Describe a pool that shrinks so that other pools reach their minimums."""
    return f"{_name(takers)} {_get(takers)} its resources to reach the minimum number of workers"


def describe_below(name: str, count: int, floor: int, reason: str) -> str:
    """Describe that a pool stays below its minimum, and why."""
    return f"{name!r} has {count} of at least {floor} {_name_workers(floor)}: {reason}"


def describe_no_node() -> str:
    """Describe an empty cluster."""
    return "there is no node"


def describe_too_large(needs: NodeResources) -> str:
    """Return a message that no node is large enough for a worker."""
    return f"no node is large enough for {describe_needs(needs)}"


def describe_full(needs: NodeResources) -> str:
    """Describe that all nodes are full."""
    return f"no node has room for {describe_needs(needs)}"


def describe_needs(needs: NodeResources) -> str:
    """Describe the resources that a worker needs."""
    amounts = {"CPU": needs.cpu, "GPU": needs.gpu, "GiB of memory": (needs.memory or 0) / GIBIBYTE}
    amounts |= dict(needs.custom)
    return ", ".join(f"{amount:.3g} {kind}" for kind, amount in amounts.items() if amount)


def describe_rate(level: float) -> str:
    """Format a rate in sources per second."""
    return f"{_round(level)} sources per second"


def _round(level: float) -> str:
    return f"{level:,.0f}" if level >= 100 else f"{level:.3g}"  # noqa: PLR2004 - three figures


def _name_workers(count: int) -> str:
    return "worker" if count == 1 else "workers"


def _get(takers: Sequence[str]) -> str:
    return "gets" if len(takers) == 1 else "get"


def _name(takers: Sequence[str]) -> str:
    names = [repr(name) for name in takers[:MOST_NAMES]]
    if len(takers) > MOST_NAMES:
        names.append(f"{len(takers) - MOST_NAMES} others")
    return " and ".join(names) if len(names) < MOST_NAMES else ", ".join(names)
