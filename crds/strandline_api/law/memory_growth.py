"""Computes how much memory pods get after they ran out of memory.

Each out-of-memory kill raises the memory, which stays raised for all later attempts of the run. The
policy's `maxMemory` limits the growth. If it is unset, the limit is the largest amount that a node
can provide. This module must not depend on how kills are detected, or on the workload and the nodes
of pods.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from strandline_api.notation.quantities import MAX_BYTES
from strandline_api.spec.policy import OomPolicy

MIB = 2**20
_NOTHING: Mapping[str, int] = MappingProxyType({})


def grow_memory(
    policy: OomPolicy,
    requested: Mapping[str, int],
    killed: Sequence[str],
    *,
    raised: Mapping[str, int] = _NOTHING,
    bounds: Mapping[str, int] = _NOTHING,
) -> dict[str, int]:
    """Compute the memory of each pod group after out-of-memory kills.

    Args:
        policy: factor and limit of the growth.
        requested: bytes requested in the spec, by `head` or the name of a worker group.
        killed: the group of the killed process, one entry per kill. Groups missing from the spec
            are ignored.
        raised: bytes reached through earlier kills, by group.
        bounds: the most bytes that a node can provide, by group; used if the policy has no limit.
            Bounds stop growth but never lower memory: a pod may keep an amount that it once got.

    Returns:
        Bytes for the groups of `requested`, multiplied by the factor once per kill, rounded up to
        whole MiB, at most `maxMemory`, and at least the requested bytes.
    """
    return {
        name: _grow(
            policy,
            had,
            kills=sum(group == name for group in killed),
            # A limit below the request must not reduce a pod's memory.
            limit=max(requested[name], policy.max_memory_bytes)
            if policy.max_memory_bytes is not None
            else max(had, bounds.get(name, MAX_BYTES)),
        )
        for name, had in hold_memory(policy, requested, raised).items()
    }


def hold_memory(
    policy: OomPolicy, requested: Mapping[str, int], raised: Mapping[str, int]
) -> dict[str, int]:
    """Compute how much of the raised memory each group keeps under the current policy.

    Returns:
        Bytes for the groups of `requested`, at least the requested bytes.
    """
    limit = MAX_BYTES if policy.max_memory_bytes is None else policy.max_memory_bytes
    return {
        name: max(wanted, min(raised.get(name, 0), limit)) for name, wanted in requested.items()
    }


def _grow(policy: OomPolicy, memory: int, *, kills: int, limit: int) -> int:
    # Convert through text: the float 1.1 is slightly more than 1.1, and rounding up would add a
    # MiB.
    factor = Fraction(str(policy.memory_factor))
    for _ in range(kills):
        # A pod with more than the current limit keeps that memory.
        if memory >= limit:
            break
        memory = min(limit, math.ceil(memory * factor / MIB) * MIB)
    return memory
