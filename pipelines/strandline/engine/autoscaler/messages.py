"""The planner's sentences. Pure; it must not know how a plan is found."""

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
    """Describe the reason of a pool that was too small."""
    return f"it keeps at least {floor}"


def describe_share() -> str:
    """Describe the reason of a pool of unknown speed."""
    return "its speed is not known yet, so it gets an equal share"


def describe_pace(level: float, pace: float, slowest: float, setter: str) -> str:
    """Describe the reason of a pool that grows into idle room.

    Args:
        level: what it does now.
        pace, slowest: of the slowest stage, before and after the change.
        setter: the name of the slowest stage after it.
    """
    if level <= pace:
        return f"it sets the pace at {describe_rate(level)}"
    if level < slowest:
        return f"it would hold the pace at {describe_rate(level)}"
    return f"it keeps a little ahead of {setter!r}, which sets the pace"


def describe_exchange(takers: Sequence[str], pace: float, after: float) -> str:
    """Describe the reason of a pool that makes room for faster ones."""
    rise = f"the pace rises from {_round(pace)} to {describe_rate(after)}"
    return f"{_name(takers)} {_get(takers)} the room, and {rise}"


def describe_missing_floor(takers: Sequence[str]) -> str:
    """Describe the reason of a pool that makes room for others' least numbers."""
    return f"{_name(takers)} {_get(takers)} the room for the least number of workers"


def describe_below(name: str, count: int, floor: int, reason: str) -> str:
    """Describe that a pool is smaller than its floor, and why."""
    return f"{name!r} has {count} of at least {floor} {_name_workers(floor)}: {reason}"


def describe_no_node() -> str:
    """Describe the reason where the cluster is empty."""
    return "there is no node"


def describe_too_large(needs: NodeResources) -> str:
    """Describe the reason where no node could hold a worker, were it empty."""
    return f"no node is large enough for {describe_needs(needs)}"


def describe_full(needs: NodeResources) -> str:
    """Describe the reason where all nodes are full."""
    return f"no node has room for {describe_needs(needs)}"


def describe_needs(needs: NodeResources) -> str:
    """Describe what one worker needs."""
    amounts = {"CPU": needs.cpu, "GPU": needs.gpu, "GiB of memory": (needs.memory or 0) / GIBIBYTE}
    amounts |= dict(needs.custom)
    return ", ".join(f"{amount:.3g} {kind}" for kind, amount in amounts.items() if amount)


def describe_rate(level: float) -> str:
    """Return sources per second."""
    return f"{_round(level)} sources a second"


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
