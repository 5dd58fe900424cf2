"""How much memory pods get after kills for memory.

It grows per kill and stays so for every later attempt, whatever ends those, up to what the policy
allows or, where that says nothing, to what pods were found to get. This room must not know how a
kill was seen, nor what a pod runs or on what.
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
    """Compute the memory of each group of pods after kills.

    Args:
        policy: factor and limit of the growth.
        requested: bytes that the spec asks for, by `head` or the name of a worker group.
        killed: the group in which something was killed, per kill; a group that the spec no longer
            has is passed over.
        raised: bytes that earlier kills have led to.
        bounds: bytes beyond which growth would be in vain, where the policy has no limit. They stop
            growth, and take nothing away: what a pod has had before was to be had.

    Returns:
        Bytes for the groups of `requested`: times the factor per kill, rounded up to whole MiB, at
        most `maxMemory`, never less than was asked for.
    """
    return {
        name: _grow(
            policy,
            had,
            kills=sum(group == name for group in killed),
            limit=max(requested[name], policy.max_memory_bytes)
            if policy.max_memory_bytes is not None
            else max(had, bounds.get(name, MAX_BYTES)),
        )
        for name, had in hold_memory(policy, requested, raised).items()
    }


def hold_memory(
    policy: OomPolicy, requested: Mapping[str, int], raised: Mapping[str, int]
) -> dict[str, int]:
    """Compute what each group gets of what was raised: no more than the policy allows by now.

    Returns:
        Bytes for the groups of `requested`, never less than was asked for.
    """
    limit = MAX_BYTES if policy.max_memory_bytes is None else policy.max_memory_bytes
    return {
        name: max(wanted, min(raised.get(name, 0), limit)) for name, wanted in requested.items()
    }


def _grow(policy: OomPolicy, memory: int, *, kills: int, limit: int) -> int:
    # From its text, since 1.1 as a float is a little more than 1.1 and would cost another MiB.
    factor = Fraction(str(policy.memory_factor))
    for _ in range(kills):
        if memory >= limit:
            break
        memory = min(limit, math.ceil(memory * factor / MIB) * MIB)
    return memory
