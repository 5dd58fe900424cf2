"""A short soak: after any disturbance, a supervised run ends like an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import Job
from soaking import KINDS, Soak, Watch

DISTURBANCES = 3
SEED = 4


@pytest.mark.full
def test_a_repeatedly_disturbed_run_ends_as_an_undisturbed_run(tmp_path: Path) -> None:
    said: list[str] = []
    soak = Soak(tmp_path / "soak", SEED, 60, said.append)

    soak.run(lambda: soak.counts.total() >= DISTURBANCES)

    assert soak.violations == [], said
    assert soak.counts.total() >= DISTURBANCES
    assert soak.counts.keys() <= set(KINDS)
    assert soak.jobs >= 1


def test_opening_a_finished_source_again_is_detected(small_job: Job, tmp_path: Path) -> None:
    watch = Watch(small_job, tmp_path, seen={"a": 1, "b": 3})
    (tmp_path / "opened.log").write_text("a\nb\nc\n")
    assert watch.find_reopened() == []
    (tmp_path / "opened.log").write_text("a\nb\nc\na\n")
    assert watch.find_reopened() == ["a"]
