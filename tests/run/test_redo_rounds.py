"""Law: over random changes, damage, kills, and retries, a redo gives the result of a fresh run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from redo_rounds import RedoRound
from strandline.run.attempt.engines import ENGINES

IN_FIRST_TIER, ROUNDS = 12, 200
SEEDS = [
    *range(IN_FIRST_TIER),
    *(pytest.param(seed, marks=pytest.mark.full) for seed in range(IN_FIRST_TIER, ROUNDS)),
]

pytestmark = pytest.mark.first(reason="compares drawn redos with fresh runs")


@pytest.mark.parametrize("seed", SEEDS)
def test_law_a_round_ends_as_a_fresh_run(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = RedoRound(seed, tmp_path, monkeypatch)
    assert drawn.play() == [], "\n".join(drawn.told)


@pytest.mark.parametrize("engine", sorted(set(ENGINES) - {"inline"}))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.full
def test_law_a_round_of_another_engine_ends_as_a_fresh_run(
    seed: int, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for stages in Ray workers
    drawn = RedoRound(ROUNDS + seed, tmp_path, monkeypatch, engine)
    assert drawn.play() == [], "\n".join(drawn.told)
