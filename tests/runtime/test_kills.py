"""A run whose processes are killed ends with the output of one that nobody disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import TARGETS, Job
from killing import ROUNDS, SMALL_SOURCES, choose_kill, kill_and_finish

SEEDS = {"parent": 1}  # it has no steps of its own; the others get two, and in `make kills` twenty
KILLS = [(target, seed) for target in TARGETS for seed in range(SEEDS.get(target, 2))]


@pytest.mark.parametrize(("target", "seed"), KILLS)
def test_a_kill_loses_and_doubles_nothing(
    small_job: Job, small_whole: dict[str, str], target: str, seed: int, tmp_path: Path
) -> None:
    kill = choose_kill(target, seed, len(small_whole))

    # Without its parent a driver leaves by itself, and the very next run takes over.
    rounds = 1 if target == "parent" else ROUNDS
    result = kill_and_finish(small_job, tmp_path, kill, small_whole, rounds)

    assert result.has_fired, kill
    assert result.is_same, kill
    assert result.is_verified, kill
    assert result.reopened == ()
    assert result.is_left, kill


def test_the_undisturbed_run_has_something_to_lose(small_whole: dict[str, str]) -> None:
    assert len(small_whole) > SMALL_SOURCES
