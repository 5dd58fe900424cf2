"""How much memory pods get after kills for memory.

The answer is computed from all kills of a run, in order, so that it holds for every later attempt,
whatever ends those. This room must not know how a kill was seen, nor what a pod runs.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from strandline_api.quantities import MAX_BYTES
from strandline_api.spec_policy import OomPolicy

MIB = 2**20


def grow_memory(
    policy: OomPolicy, requested: Mapping[str, int], killed: Sequence[str]
) -> dict[str, int]:
    """Compute the memory of each group of pods after the kills of a run.

    Args:
        policy: factor and limit of the growth.
        requested: bytes that the spec asks for, by `head` or the name of a worker group.
        killed: the group in which something was killed, per kill; a group that the spec no longer
            has is passed over.

    Returns:
        Bytes for the groups of `requested`: times the factor per kill, rounded up to whole MiB, at
        most `maxMemory`, never less than was asked for.
    """
    return {
        name: _grow(policy, wanted, sum(group == name for group in killed))
        for name, wanted in requested.items()
    }


def _grow(policy: OomPolicy, wanted: int, kills: int) -> int:
    limit = max(wanted, policy.max_memory_bytes or MAX_BYTES)
    # From its text, since 1.1 as a float is a little more than 1.1 and would cost another MiB.
    factor = Fraction(str(policy.memory_factor))
    memory = wanted
    for _ in range(kills):
        if memory == limit:
            break
        memory = min(limit, math.ceil(memory * factor / MIB) * MIB)
    return memory
