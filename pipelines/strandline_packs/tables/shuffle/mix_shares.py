"""How much of each data set a mixture takes, and from which partitions, to the last row.

Pure: weights and sums in, shares out. It must not know tables or files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from strandline_packs.tables.shuffle.row_weights import Weights

Key = TypeVar("Key")


class Draw(NamedTuple):
    """What a partition of the mixture takes from one of a data set.

    Attributes:
        epoch: how often its rows have come before.
        partition: of the data set.
        take: of the unit that is counted; None: all rows.
    """

    epoch: int
    partition: int
    take: int | None


def divide(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide a whole number by weights: parts add up, and each is off by less than one."""
    whole = sum(map(Fraction, weights.values()))
    exact = {name: total * Fraction(weight) / whole for name, weight in weights.items()}
    parts = {name: int(share) for name, share in exact.items()}
    left = total - sum(parts.values())
    for name in sorted(exact, key=lambda name: (parts[name] - exact[name], name))[:left]:
        parts[name] += 1
    return parts


def draw_shares(supply: Sequence[int], wanted: int) -> list[list[Draw]]:
    """Return what each partition of a mixture takes of a data set, so that all take `wanted`.

    Each takes whole epochs first. Those of later epochs come from other partitions, so that copies
    of a row are far from each other.

    Args:
        supply: what there is in each partition; not nothing in all.
    """
    count, whole = len(supply), sum(supply)
    epochs, rest = divmod(wanted, whole)
    cuts = [rest * sum_ // whole for sum_ in accumulate(supply, initial=0)]
    shares = [after - before for before, after in pairwise(cuts)]
    draws: list[list[Draw]] = [[] for _ in supply]
    for at, of_one in enumerate(draws):
        of_one += [Draw(epoch, (at + epoch) % count, None) for epoch in range(epochs)]
        partition = (at + epochs) % count
        if shares[partition]:
            of_one.append(Draw(epochs, partition, shares[partition]))
    return draws


def count_taken(weights: Weights, wanted: int, chance: float) -> int:
    """Return how many rows from the front come to a weight; off by less than one of them.

    Args:
        chance: from 0 to below 1; a row that goes beyond is taken if more than that part of it is
            wanted, so that sums over many calls are right where each has a number of its own.
    """
    before = np.cumsum(weights) - weights
    return int(np.count_nonzero(before + chance * weights < wanted))


def find_largest(
    budget: int, limits: Mapping[Key, int], divide_budget: Callable[[int], Mapping[Key, int]]
) -> int:
    """Return the largest budget that is met.

    Args:
        budget: one that is not.
        limits: how much may be taken of each.
        divide_budget: returns what of a budget is for each, which grows with it, but for roundings.
    """
    wanted = divide_budget(budget)
    shares = [Fraction(limits[key] + 1, amount) for key, amount in wanted.items() if amount]
    most = min(budget, int(budget * min(shares)) + len(wanted))
    while any(amount > limits[key] for key, amount in divide_budget(most).items()):
        most -= 1
    return most
