"""After a redo, a retry, or a kill, all commands and pages show the counts of a fresh run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from counted_faces import CountedRuns, find_words, keep
from failing_stages import MENDED
from number_runs import Item
from pipeline_runs import crashing_at
from strandline.cli.views.running.snapshot import Pace, take_snapshot
from strandline.cli.views.running.snapshot_json import render_snapshot
from strandline.engine.core.ports import RunProgress
from strandline.plan.receipt import READ_BACK, READ_DEAD_LETTERS, is_added, name_cut_stage
from strandline_api.outcome.exit_codes import ExitCode
from tuned_stages import BROKEN
from tuning import FILES, ROWS, add

THREES: Item = {"use": "failing_stages:RefuseThrees", "name": "threes", "onError": "deadLetter"}
REFUSE: Item = {"use": "tuned_stages:Refuse", "name": "refuse"}
TIMES: Item = {"use": "tuned_stages:Times", "name": "times", "with": {"by": 3}}


def make_runs(folder: Path) -> CountedRuns:
    folder.mkdir()
    return CountedRuns(folder)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[CountedRuns]:
    MENDED.clear()
    yield make_runs(tmp_path / "changed")
    MENDED.clear()
    BROKEN.clear()


@pytest.fixture
def fresh(tmp_path: Path) -> CountedRuns:
    return make_runs(tmp_path / "fresh")


def check(runs: CountedRuns, fresh: CountedRuns, rows: int) -> None:
    """Check that all counts equal those of a fresh run, and check the number of output rows."""
    assert runs.read_faces() == fresh.read_faces()
    runs.check_agreement()
    assert runs.count_by_hand()["data"] == rows


def test_a_redo_from_a_cut_counts_as_a_fresh_run(runs: CountedRuns, fresh: CountedRuns) -> None:
    runs.run(add(1, keep=True), keep(10))
    runs.run(add(1, keep=True), keep(40))
    fresh.run(add(1, keep=True), keep(40))
    check(runs, fresh, 39)
    assert "| limit | 60 | 39 | 0 | 21 too large |" in runs.read_faces()["card"]


def test_a_redo_from_the_beginning_counts_as_a_fresh_run(
    runs: CountedRuns, fresh: CountedRuns
) -> None:
    runs.run(add(1), keep(10), keep(50, name="second"))
    runs.run(add(2), keep(40), keep(50, name="second"))
    fresh.run(add(2), keep(40), keep(50, name="second"))
    check(runs, fresh, 38)


def test_a_redo_from_the_files_of_the_sink_counts_as_a_fresh_run(
    runs: CountedRuns, fresh: CountedRuns
) -> None:
    runs.run(keep(30))
    runs.run(keep(30), TIMES)
    fresh.run(keep(30), TIMES)
    check(runs, fresh, 30)


def test_a_retry_of_dead_letters_counts_as_a_fresh_run(
    runs: CountedRuns, fresh: CountedRuns
) -> None:
    runs.run(add(0), THREES, keep(35))
    runs.check_agreement()
    MENDED.add("threes")
    runs.run(add(0), THREES, keep(35), dead_letters="threes", on_change="Fail")
    fresh.run(add(0), THREES, keep(35))
    check(runs, fresh, 35)


def test_a_retry_of_dead_letters_that_die_again_counts_as_a_fresh_run(
    runs: CountedRuns, fresh: CountedRuns
) -> None:
    runs.run(THREES, keep(35))
    runs.run(THREES, keep(35), dead_letters="threes", on_change="Fail")
    fresh.run(THREES, keep(35))
    check(runs, fresh, 31)


def test_a_retried_source_counts_as_in_a_fresh_run(runs: CountedRuns, fresh: CountedRuns) -> None:
    BROKEN.add(25)
    assert runs.run(keep(50), REFUSE) is ExitCode.SOURCES_FAILED
    runs.check_agreement()
    BROKEN.clear()
    runs.run(keep(50), REFUSE)
    fresh.run(keep(50), REFUSE)
    check(runs, fresh, 50)


def test_a_released_source_counts_as_in_a_fresh_run(runs: CountedRuns, fresh: CountedRuns) -> None:
    quarantine = {"after": 1, "tolerate": FILES}
    BROKEN.add(25)
    runs.run(keep(50), REFUSE, quarantine=quarantine)
    runs.check_agreement()
    assert runs.read_faces()["stats"]["quarantined"] == 1
    BROKEN.clear()
    runs.call("ledger quarantine release --all")
    runs.run(keep(50), REFUSE, quarantine=quarantine)
    fresh.run(keep(50), REFUSE, quarantine=quarantine)
    check(runs, fresh, 50)


@pytest.mark.parametrize("step", [12, 20])
def test_a_kill_in_the_middle_of_a_redo_counts_as_a_fresh_run(
    step: int, runs: CountedRuns, fresh: CountedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.run(add(1, keep=True), keep(10))
    with crashing_at(step, monkeypatch):
        runs.run(add(1, keep=True), keep(40))
    runs.run(add(1, keep=True), keep(40))
    fresh.run(add(1, keep=True), keep(40))
    check(runs, fresh, 39)


def test_changed_and_vanished_sources_count_as_in_a_fresh_run(
    runs: CountedRuns, fresh: CountedRuns
) -> None:
    listing = {"onRemoved": "Delete"}
    runs.run(keep(50), listing=listing)
    for each in (runs, fresh):
        each.write(0, range(5))
        (each.texts / f"{FILES - 1}.jsonl").unlink()
    runs.run(keep(50), listing=listing)
    fresh.run(keep(50), listing=listing)
    check(runs, fresh, ROWS + 5)


def test_a_source_whose_redo_fails_is_in_one_state(runs: CountedRuns) -> None:
    runs.run(add(1), REFUSE)
    BROKEN.add(25)
    assert runs.run(add(2), REFUSE) is ExitCode.SOURCES_FAILED
    stats = runs.read_faces()["stats"]
    assert (stats["finished"], stats["failed"]) == (FILES - 1, 1)
    runs.check_agreement()


def test_progress_counts_all_phases_of_a_redo(runs: CountedRuns) -> None:
    """A new source fails before the redo of the other sources begins."""
    seen: list[RunProgress] = []
    runs.run(add(1, keep=True), REFUSE)
    runs.write(FILES, [1000])
    BROKEN.add(1001)
    runs.run(add(1, keep=True), keep(2000), REFUSE, report=seen.append)
    stats, last = runs.read_faces()["stats"], seen[-1]
    assert (stats["finished"], stats["failed"]) == (FILES, 1)
    assert last.failed == 1
    snapshot = render_snapshot(take_snapshot(last, 1.0, Pace()))
    assert snapshot["sources"]["failed"] == 1


def test_no_internal_name_is_shown(runs: CountedRuns) -> None:
    words = ("read-kept", "read-dead-letters", ".kept")
    added = (READ_BACK, READ_DEAD_LETTERS, name_cut_stage("add"))
    runs.run(add(1, keep=True), THREES, keep(10))
    runs.run(add(1, keep=True), THREES, keep(40))
    runs.run(add(1, keep=True), THREES, keep(40), dead_letters="threes", on_change="Fail")
    faces = str(runs.read_faces())
    assert not [word for word in (*words, *added) if word in faces]
    assert find_words(runs.passes.volume, words[:2]) == []
    assert all(map(is_added, added))


def test_workers_count_like_a_single_process(runs: CountedRuns, fresh: CountedRuns) -> None:
    """Workers run chained stages, except one stage that has resources of its own."""
    apart = {"resources": {"cpu": 0.5}}
    runs.run(add(1), THREES | apart, keep(30), engine="processes")
    runs.run(add(1), THREES | apart, keep(40), engine="processes")
    fresh.run(add(1), THREES, keep(40))
    check(runs, fresh, 35)
