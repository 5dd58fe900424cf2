"""Redo with missing or damaged outputs, and with sources in quarantine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from number_runs import Item
from pipeline_runs import crashing_at_step
from strandline.ledger.checks.completeness import find_gaps
from strandline_api.outcome.exit_codes import ExitCode
from tuned_stages import BROKEN
from tuning import FILES, NAME, SHARED, Tuning, add, below


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path)


SQUARE: Item = {"use": "tuned_stages:Square"}
LABEL: Item = {"use": "tuned_stages:Label"}


def lose(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def damage(path: Path) -> None:
    written = bytearray(path.read_bytes())
    written[len(written) // 2] ^= 1
    path.write_bytes(written)


@pytest.mark.parametrize("sink", [{"use": "parquet"}, SHARED])
@pytest.mark.parametrize("hurt", [lose, cut_short, damage])
@pytest.mark.parametrize("number", [1, FILES])
def test_a_source_without_its_output_starts_before_the_sink(
    tuning: Tuning, sink: Item, hurt: Callable[[Path], None], number: int
) -> None:
    quarantine = {"after": 1}
    tuning.run(SQUARE, sink=sink)
    for path in sorted(tuning.output.rglob("*.parquet"))[:number]:
        hurt(path)
    assert ExitCode.COMPLETE is tuning.run(SQUARE, LABEL, sink=sink, quarantine=quarantine)
    assert 0 == tuning.outcome.standing.failed
    tuning.check()
    tuning.run(SQUARE, LABEL, sink=sink, name="fresh")
    assert tuning.read("fresh") == tuning.read()
    with tuning.passes.opened(NAME) as store:
        assert (0, 0, 0) == find_gaps(store)[1:4]
        assert 0 == find_gaps(store).older


def test_a_stop_after_damage_was_found_loses_nothing(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.run(SQUARE)
    damage(next(tuning.output.rglob("*.parquet")))
    with crashing_at_step("commit.synced", monkeypatch):
        tuning.run(SQUARE, LABEL)
    assert ExitCode.COMPLETE is tuning.run(SQUARE, LABEL)
    tuning.check()
    tuning.run(SQUARE, LABEL, name="fresh")
    assert tuning.read("fresh") == tuning.read()


@pytest.mark.parametrize("hurt", [lose, cut_short])
def test_a_recreated_file_stays_if_the_former_file_is_gone(
    tuning: Tuning, hurt: Callable[[Path], None]
) -> None:
    tuning.run(add(1), below(1000))
    hurt(next(tuning.output.rglob("*.parquet")))
    assert ExitCode.COMPLETE is tuning.run(add(1), below(2000))  # the new limit gives the same rows
    tuning.check()


@pytest.mark.parametrize("finished", [0, FILES - 1])
def test_quarantined_sources_are_retried_if_the_change_may_help(
    tuning: Tuning, finished: int
) -> None:
    BROKEN.update(range(20 * (FILES - finished)))
    refuse: Item = {"use": "tuned_stages:Refuse"}
    quarantine = {"after": 1}
    tuning.run(add(0), refuse, below(1000), quarantine=quarantine)
    assert FILES - finished == tuning.outcome.standing.quarantined
    # A change of a later stage cannot help, so the sources stay in quarantine.
    tuning.run(add(0), refuse, below(1001), quarantine=quarantine)
    assert FILES - finished == tuning.outcome.standing.quarantined
    assert ExitCode.COMPLETE is tuning.run(add(500), refuse, below(1001), quarantine=quarantine)
    tuning.check()
    tuning.run(add(500), refuse, below(1001), name="fresh")
    assert tuning.read("fresh") == tuning.read()
