"""On random days, the operator finds each drawn cause, with and without operator restarts."""

from __future__ import annotations

import random

import pytest

from drawn_day import DrawnRun

FEW, MANY = range(6), range(200)
DAYS = [
    pytest.param(FEW, id="few"),
    pytest.param(MANY, id="many", marks=pytest.mark.full),
]


def play(seed: int, *, is_restarted: bool) -> DrawnRun:
    restarts = random.Random(f"restarts {seed}") if is_restarted else None
    run = DrawnRun(random.Random(seed), restarts)
    run.play()
    return run


@pytest.mark.slow
@pytest.mark.parametrize("seeds", DAYS)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["undisturbed", "restarted"])
def test_law_each_cause_is_the_drawn_one(seeds: range, *, is_restarted: bool) -> None:
    losses = flaps = outages = 0
    for seed in seeds:
        run = play(seed, is_restarted=is_restarted)
        past = run.cluster.status.attempts
        assert [each.cause for each in past] == [end.cause for end in run.ends], seed
        killed = {group for end in run.ends for group in end.killed}
        assert set(run.cluster.status.memory) == killed, seed
        losses, flaps = losses + run.losses, flaps + run.flaps
        outages += run.outages
    # On a quiet day the test would prove nothing.
    assert min(losses, flaps) > 2 * len(seeds)
    assert (outages > 10 * len(seeds)) is is_restarted
