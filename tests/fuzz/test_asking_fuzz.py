"""Runs that send requests to a faulty model server, with kills at random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from asking_rounds import play_asking


# In the first tier, tests/run/test_asked_runs.py tests this without random moments.
@pytest.mark.more
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2, 3))]
)
def test_each_row_is_answered_dropped_or_dead_once_despite_kills(seed: int, tmp_path: Path) -> None:
    problems, fired = play_asking(seed, "inline", tmp_path)
    assert problems == []
    assert fired


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_each_row_has_one_result_despite_kills_of_worker_processes(
    engine: str, seed: int, tmp_path: Path
) -> None:
    problems, fired = play_asking(seed, engine, tmp_path)
    assert problems == []
    assert fired
