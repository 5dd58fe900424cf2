"""A run whose processes are killed ends with the output of one that nobody disturbed."""

from __future__ import annotations

import pytest

from killing import SMALL_SOURCES, TARGETS, Job, choose_kill

SEEDS = 3


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("target", TARGETS)
def test_a_kill_loses_and_doubles_nothing(
    small_job: Job, small_whole: dict[str, str], target: str, seed: int
) -> None:
    kill = choose_kill(target, seed, len(small_whole))

    result = small_job.kill_and_finish(kill, f"{target}-{seed}", small_whole)

    assert result.has_fired, kill
    assert result.is_same, kill
    assert result.is_verified, kill
    assert result.reopened == ()


def test_the_undisturbed_run_has_something_to_lose(small_whole: dict[str, str]) -> None:
    assert len(small_whole) > SMALL_SOURCES
