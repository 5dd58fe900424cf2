"""Pipelines with automatic cuts: which stages keep their output, and how many bytes it takes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuned_stages
from example_counts import scale_examples
from number_runs import Item
from pipeline_runs import crashing_at
from strandline.run.revise.cuts import auto_cuts, choice
from strandline.run.revise.cuts.auto_cuts import read_choice
from strandline.run.revise.cuts.choice import CutVerdict
from strandline_api.outcome.exit_codes import ExitCode
from tuning import FILES, NAME, SHARED, Tuning, add, below

AUTO = {"keep": "auto", "keepAtMost": "1Gi"}


@pytest.fixture
def tuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tuning:
    # Set the cost of writing to zero. These stages are so fast that a cut would never pay off.
    monkeypatch.setattr(choice, "WRITING", 1e15)
    return Tuning(tmp_path)


def judge(tuning: Tuning) -> dict[str, CutVerdict]:
    with tuning.passes.opened(NAME) as store:
        return {each.stage: each.verdict for each in read_choice(store).judged}


def measure(tuning: Tuning) -> int:
    return sum(path.stat().st_size for path in tuning.cuts)


def test_the_first_sources_are_measured_and_the_others_use_the_chosen_cuts(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    assert ExitCode.COMPLETE is tuning.run(add(1), below(50), **AUTO)
    standing = tuning.outcome.standing
    assert (3, 0, 0) == (standing.finished, standing.skipped, standing.unfinished)
    assert 60 == tuning.count_rows("add")
    kept = [stage for stage, verdict in judge(tuning).items() if verdict is CutVerdict.KEPT]
    assert "add" in kept
    assert FILES * len(kept) == len(tuning.cuts)
    tuning.check()
    assert ExitCode.COMPLETE is tuning.run(add(1), below(10), **AUTO)
    assert (0, 60, 9) == (
        tuning.count_rows("add"),
        tuning.count_rows("below"),
        tuning.read().total(),
    )
    tuning.check()


def test_rejected_cuts_are_removed_after_the_trial(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "WRITING", 1.0)
    tuning.run(add(1), below(50), **AUTO)
    assert {CutVerdict.SAVES_LITTLE} == set(judge(tuning).values())
    assert [] == tuning.cuts
    tuning.check()


def test_chosen_cuts_stay_until_the_pipeline_changes(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.run(add(1), below(50), **AUTO)
    before = judge(tuning)
    monkeypatch.setattr(choice, "WRITING", 1.0)
    tuning.write(FILES, range(5))
    tuning.run(add(1), below(50), **AUTO)
    assert before == judge(tuning)
    tuning.run(add(1), below(40), **AUTO)
    assert {CutVerdict.SAVES_LITTLE} == set(judge(tuning).values())


def test_a_finished_pipeline_without_cuts_is_measured_while_it_is_redone(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    tuning.run(add(1), below(50))
    assert ExitCode.COMPLETE is tuning.run(add(1), below(10), **AUTO)
    assert (3, 0, 9) == (*tuning.outcome.standing[:2], tuning.read().total())
    assert len(tuning.cuts) >= FILES
    tuning.check()


def test_data_that_no_file_can_hold_is_passed_on_but_never_kept(tuning: Tuning) -> None:
    odd: Item = {"use": "tuned_stages:Wrap", "name": "wrap"}
    back: Item = {"use": "tuned_stages:Unwrap", "name": "unwrap"}
    assert ExitCode.COMPLETE is tuning.run(add(1), odd, back, below(50), **AUTO)
    assert CutVerdict.IMPOSSIBLE is judge(tuning)["wrap"]
    assert not [path for path in tuning.cuts if ".wrap." in path.name]
    assert ExitCode.COMPLETE is tuning.run(add(1), odd, back, below(10), **AUTO)
    assert 9 == tuning.read().total()


def test_a_stage_that_passes_no_row_on_can_be_kept(tuning: Tuning) -> None:
    everything: Item = {"use": "keep-rows", "name": "none", "with": {"where": "n < 0"}}
    tuning.run(add(1), everything, below(50), **AUTO)
    assert CutVerdict.IMPOSSIBLE not in judge(tuning).values()
    assert ExitCode.COMPLETE is tuning.run(add(1), everything, below(10), **AUTO)
    tuning.check()


def test_a_trial_whose_sources_fail_does_not_affect_the_others(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    tuned_stages.BROKEN.add(1)
    refuse: Item = {"use": "tuned_stages:Refuse", "name": "refuse"}
    assert ExitCode.SOURCES_FAILED is tuning.run(refuse, below(50), **AUTO)
    standing = tuning.outcome.standing
    assert (2, 0, 1) == (standing.finished, standing.skipped, standing.failed)
    tuning.check()


def test_sources_of_a_trial_are_listed_and_stay(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    tuning.run(add(1), **AUTO, listing={"onRemoved": "Delete"})
    assert (60, 0) == (tuning.read().total(), tuning.outcome.standing.removed)
    assert 3 == tuning.outcome.total


CHAINS = st.lists(st.sampled_from(["add", "below", "part", "join"]), min_size=1, max_size=4)
EDITS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=3)


def make_chain(kinds: list[str], values: list[int]) -> list[Item]:
    items: dict[str, Item] = {
        "add": {"use": "tuned_stages:Add"},
        "below": {"use": "tuned_stages:KeepBelow"},
        "part": {"use": "tuned_stages:Part"},
        "join": {"use": "tuned_stages:Add", "group": 4},
    }
    names = {"add": "by", "below": "limit", "part": "rows", "join": "by"}
    chain = [
        {**items[kind], "name": f"s{at}", "with": {names[kind]: values[at]}}
        for at, kind in enumerate(kinds)
    ]
    return [*chain, {"use": "tuned_stages:Total", "name": "last"}]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=scale_examples(8))
@given(CHAINS, EDITS, st.booleans(), st.sampled_from([1, 3_000, 10_000, 10**9]))
def test_law_a_redo_from_chosen_cuts_equals_a_fresh_run(
    kinds: list[str], edits: list[tuple[int, int]], is_shared: bool, at_most: int
) -> None:
    sink = SHARED if is_shared else {"use": "parquet"}
    values = [5, 30, 7, 11]
    options: dict[str, Any] = {"keep": "auto", "keepAtMost": at_most, "sink": sink}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "WRITING", 1e15)
        patch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
        tuning = Tuning(Path(folder))
        tuning.reader = {"use": "read-jsonl", "with": {"maxRows": 6}}
        tuning.run(*make_chain(kinds, values), **options)
        assert measure(tuning) <= at_most
        for at, value in edits:
            values[at] = value
            assert ExitCode.COMPLETE is tuning.run(*make_chain(kinds, values), **options)
            assert measure(tuning) <= at_most
            tuning.check()
        tuning.run(*make_chain(kinds, values), sink=sink, name="fresh")
        assert tuning.read_files("fresh") == tuning.read_files()
        assert tuning.read("fresh") == tuning.read()
        assert tuning.read_totals("fresh") == tuning.read_totals()


def test_law_recorded_cuts_never_exceed_the_bound(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    tuning.run(add(1, keep=True), below(50))
    one = measure(tuning) // FILES
    tuning.run(add(1, keep=True), below(50), keepAtMost=2 * one + 8)
    assert 2 == len(tuning.cuts)
    tuning.write(FILES, range(20))
    tuning.run(add(1, keep=True), below(50), keepAtMost=2 * one + 8)
    assert 2 == len(tuning.cuts)
    tuning.run(add(2, keep=True), below(50), keepAtMost=2 * one + 8)
    assert 2 == len(tuning.cuts)
    tuning.check()


@pytest.mark.parametrize("at", range(0, 75, 5))
def test_law_sources_of_a_trial_survive_a_crash_like_any_other_source(
    tuning: Tuning, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 1)
    with crashing_at(at, monkeypatch):
        tuning.run(add(1), below(50), **AUTO)
    assert ExitCode.COMPLETE is tuning.run(add(1), below(50), **AUTO)
    assert 49 == tuning.read().total()
    tuning.check()
