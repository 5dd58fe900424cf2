"""Retries of dead letters after the pipeline has changed: no output mixes two recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import failing_stages
from number_runs import Item
from strandline.ledger.errors import LedgerError
from strandline_api.outcome.exit_codes import ExitCode
from tuning import NAME, Tuning, add

THREES: Item = {"use": "failing_stages:RefuseThrees", "onError": "deadLetter"}
DOUBLE: Item = {"use": "tuned_stages:Double"}
KEPT = THREES | {"keep": True}


@pytest.fixture
def tuning(tmp_path: Path) -> Iterator[Tuning]:
    failing_stages.MENDED.clear()
    yield Tuning(tmp_path)
    failing_stages.MENDED.clear()


def mend_and_retry(tuning: Tuning, *stages: Item, on_change: str) -> ExitCode:
    failing_stages.MENDED.add("threes")
    return tuning.run(*stages, dead_letters="refuse-threes", on_change=on_change)


def check_against_a_fresh_run(tuning: Tuning, *stages: Item) -> None:
    assert ExitCode.COMPLETE is tuning.run(*stages)
    tuning.check()
    tuning.run(*stages, name="fresh")
    assert tuning.read("fresh") == tuning.read()


@pytest.mark.parametrize("on_change", ["Fail", "Redo", "Restart"])
def test_a_retry_is_refused_if_the_pipeline_has_changed(tuning: Tuning, on_change: str) -> None:
    tuning.run(THREES)
    before = tuning.read()
    with pytest.raises(LedgerError, match="the pipeline has changed since its dead letters"):
        mend_and_retry(tuning, THREES, add(100), on_change=on_change)
    assert before == tuning.read()
    check_against_a_fresh_run(tuning, THREES, add(100))


@pytest.mark.parametrize("threes", [THREES, KEPT])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [DOUBLE]),  # a redo would read the sink's files
        ([DOUBLE], [DOUBLE, DOUBLE | {"name": "again"}]),
        ([], [add(100)]),
        ([add(1)], [add(100)]),
        ([add(1), add(2, name="more")], [add(1), add(50, name="more")]),
        ([add(1)], []),
    ],
)
def test_a_redo_after_a_retry_with_continue_equals_a_fresh_run(
    tuning: Tuning, threes: Item, before: list[Item], after: list[Item]
) -> None:
    tuning.run(threes, *before)
    assert ExitCode.COMPLETE is mend_and_retry(tuning, threes, *after, on_change="Continue")
    tuning.check()
    check_against_a_fresh_run(tuning, threes, *after)


def test_a_reverted_pipeline_keeps_no_rows_of_the_other_recipe(
    tuning: Tuning,
) -> None:
    tuning.run(THREES)
    mend_and_retry(tuning, THREES, add(100), on_change="Continue")
    check_against_a_fresh_run(tuning, THREES)


def test_sources_of_an_older_recipe_keep_dead_letters_until_redone(
    tuning: Tuning,
) -> None:
    tuning.run(THREES)
    tuning.run(THREES, add(100), on_change="Continue")
    before = tuning.read_alive()
    mend_and_retry(tuning, THREES, add(100), on_change="Redo")
    assert before == tuning.read_alive()
    with tuning.passes.opened(NAME) as store:
        assert {"refuse-threes"} == {
            stage for _, _, record in store.list_records() for stage in record.count_dead()
        }
    check_against_a_fresh_run(tuning, THREES, add(100))
