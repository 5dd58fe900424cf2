"""Computes how much of each data set a mixture takes, and from which partitions.

This module takes weights and sums, returns shares, and does no I/O. The module must not depend on
tables or files.
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
    """The amount that a partition of the mixture takes from a partition of a data set.

    Attributes:
        epoch: how often these rows occur earlier in the mixture.
        partition: index of the data set's partition.
        take: amount in the unit of the budget; None for all rows.
    """

    epoch: int
    partition: int
    take: int | None


def divide(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide an integer by weights. The parts add up; rounding changes a part by less than 1."""
    # Fractions are exact; sums of floats could differ from the total.
    whole = sum(map(Fraction, weights.values()))
    exact = {name: total * Fraction(weight) / whole for name, weight in weights.items()}
    parts = {name: int(share) for name, share in exact.items()}
    left = total - sum(parts.values())
    # Largest remainders first. Ties go by name, so that the result is stable.
    for name in sorted(exact, key=lambda name: (parts[name] - exact[name], name))[:left]:
        parts[name] += 1
    return parts


def draw_shares(supply: Sequence[int], wanted: int) -> list[list[Draw]]:
    """Return the draws from a data set for each partition of a mixture, which add up to `wanted`.

    A partition of the mixture first takes whole epochs. For each further epoch, it uses another
    partition of the data set, so that copies of a row are far apart.

    Args:
        supply: amount in each partition of the data set; the total must be above 0.
        wanted: total amount to take.
    """
    count, whole = len(supply), sum(supply)
    epochs, rest = divmod(wanted, whole)
    # Cut the cumulative sums, so that the shares add up exactly.
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
    """Return the number of leading rows with a total weight of `wanted`, off by at most one row.

    Args:
        chance: number from 0 to below 1. If the total falls within the last row, the row is taken
            if more than this share of its weight is wanted. With random chances, sums over many
            calls are correct on average.
    """
    before = np.cumsum(weights) - weights
    return int(np.count_nonzero(before + chance * weights < wanted))


def find_largest(
    budget: int, limits: Mapping[Key, int], divide_budget: Callable[[int], Mapping[Key, int]]
) -> int:
    """Return the largest budget that the data sets can meet.

    Args:
        budget: a budget that the data sets can't meet.
        limits: maximum amount from each data set.
        divide_budget: divides a budget among the data sets; apart from rounding, each share grows
            with the budget.
    """
    wanted = divide_budget(budget)
    shares = [Fraction(limits[key] + 1, amount) for key, amount in wanted.items() if amount]
    # Start slightly too high: rounding changes a share by less than 1, so add 1 for each share.
    most = min(budget, int(budget * min(shares)) + len(wanted))
    while any(amount > limits[key] for key, amount in divide_budget(most).items()):
        most -= 1
    return most
