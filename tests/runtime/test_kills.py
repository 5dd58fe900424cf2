"""After a kill of a process, a run ends with the output of an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import TARGETS, Job
from killing import ROUNDS, SMALL_SOURCES, choose_kill, kill_and_finish

pytestmark = pytest.mark.first(reason="each kind of process needs a Ray of its own")

# Seeds of the first tier: one kill per kind of process. `make kills` takes twenty seeds.
FIRST = {"parent": 0, "driver": 0, "worker": 0, "ledger": 1, "raylet": 1}
# Seeds of the third tier, with the other kind of moment. The parent has only one kind.
OTHERS = {"driver": 1, "worker": 1, "ledger": 0, "raylet": 0}


@pytest.mark.parametrize(
    ("target", "seed"),
    [
        *FIRST.items(),
        *(pytest.param(*case, marks=pytest.mark.full) for case in OTHERS.items()),
    ],
)
def test_a_kill_loses_and_doubles_nothing(
    small_job: Job, small_whole: dict[str, str], target: str, seed: int, tmp_path: Path
) -> None:
    kill = choose_kill(target, seed, len(small_whole))

    # A driver without its parent ends by itself. The next run takes over.
    rounds = 1 if target == "parent" else ROUNDS
    result = kill_and_finish(small_job, tmp_path, kill, small_whole, rounds)

    assert result.has_fired, kill
    assert result.is_same, kill
    assert result.is_verified, kill
    assert result.reopened == ()
    assert result.is_left, kill


def test_each_kind_of_process_is_killed() -> None:
    assert FIRST.keys() == set(TARGETS)


def test_the_undisturbed_run_has_something_to_lose(small_whole: dict[str, str]) -> None:
    assert len(small_whole) > SMALL_SOURCES
