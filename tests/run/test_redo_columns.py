"""Columns that are added or changed at the end of a chain are computed from the sink's files."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuned_stages
from example_counts import scale_examples
from number_runs import Item
from pipeline_runs import crashing_at
from strandline.run.revise.redoing import READING
from strandline.run.revise.starts.rules import describe_start
from strandline.run.revise.starts.start import Start
from strandline_api.outcome.exit_codes import ExitCode
from tuning import NAME, Tuning, add, below

ALONE: Item = {"use": "parquet"}
SHARED: Item = {"use": "parquet", "with": {"targetBytes": 1_000_000, "rowGroupRows": 7}}
# Sources share files, but there are several files.
SEVERAL: Item = {"use": "parquet", "with": {"targetBytes": 900, "rowGroupRows": 16}}
SINKS = pytest.mark.parametrize("sink", [ALONE, SHARED, SEVERAL])
FEATURES: Item = {"use": "parquet", "with": {"features": {"label": {"classes": ["a", "b"]}}}}


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path)


def times(by: int, **more: Any) -> Item:
    return {"use": "tuned_stages:Times", "name": "times", "with": {"by": by}, **more}


def mark(where: str, *, is_marked: bool = True, name: str = "chosen") -> Item:
    return {"use": "keep-rows", "name": name, "with": {"where": where, "mark": is_marked}}


def read_rows(tuning: Tuning, name: str = NAME) -> Counter[str]:
    """Return the rows with their columns in order."""
    tables = map(pq.read_table, tuning.passes.find_output(name).rglob("*.parquet"))
    return Counter(repr(row) for table in tables for row in table.to_pylist())


def read_bytes(tuning: Tuning, name: str = NAME) -> Counter[tuple[str, bytes]]:
    """Return the contents of files that have a single source, with the source's folder."""
    paths = tuning.passes.find_output(name).glob("???/*/*.parquet")
    return Counter((path.parent.name, path.read_bytes()) for path in paths)


def check_as_fresh(tuning: Tuning, *stages: Item, sink: Item) -> None:
    """Check that the result equals the result of a fresh run."""
    tuning.check()
    shutil.rmtree(tuning.passes.find_output("fresh").parent, ignore_errors=True)
    assert ExitCode.COMPLETE is tuning.run(*stages, sink=sink, name="fresh")
    assert read_rows(tuning, "fresh") == read_rows(tuning)
    assert read_bytes(tuning, "fresh") == read_bytes(tuning)


def test_the_files_of_the_sink_are_preferred_to_a_cut(tuning: Tuning) -> None:
    kept = {**add(1), "keep": True}
    tuning.run(kept, below(50), sink=ALONE)
    chain = kept, below(50), times(3)
    assert ExitCode.COMPLETE is tuning.run(*chain, sink=ALONE)
    # The cut is earlier in the chain, so a redo from the cut would run `below` again.
    assert (0, 0, 49) == tuple(map(tuning.count_rows, ("add", "below", "times")))
    check_as_fresh(tuning, *chain, sink=ALONE)


def test_without_files_and_cuts_all_sources_start_from_the_beginning(tuning: Tuning) -> None:
    """A redo looks for a cut if the sink's files are missing. Here the cut is missing, too."""
    kept = {**add(1), "keep": True}
    tuning.run(kept, below(50), sink=ALONE)
    assert tuning.cuts
    for path in [*tuning.cuts, *tuning.output.glob("???/*/*.parquet")]:
        path.unlink()
    chain = kept, below(50), times(3)
    assert ExitCode.COMPLETE is tuning.run(*chain, sink=ALONE)
    assert (60, 60, 49) == tuple(map(tuning.count_rows, ("add", "below", "times")))
    assert READING not in tuning.outcome.counts
    check_as_fresh(tuning, *chain, sink=ALONE)


@SINKS
def test_an_added_column_is_computed_from_the_files_of_the_sink(tuning: Tuning, sink: Item) -> None:
    tuning.run(add(1), below(50), sink=sink)
    chain = add(1), below(50), times(3)
    assert ExitCode.COMPLETE is tuning.run(*chain, sink=sink)
    assert (0, 0, 49) == tuple(map(tuning.count_rows, ("add", "below", "times")))
    check_as_fresh(tuning, *chain, sink=sink)


@SINKS
def test_a_recomputed_column_replaces_the_old_column(tuning: Tuning, sink: Item) -> None:
    tuning.run(add(1), below(50), times(3), sink=sink)
    chain = add(1), below(50), times(4)
    assert ExitCode.COMPLETE is tuning.run(*chain, sink=sink)
    assert (0, 0, 49) == tuple(map(tuning.count_rows, ("add", "below", "times")))
    check_as_fresh(tuning, *chain, sink=sink)


def test_a_renamed_column_leaves_no_old_column(tuning: Tuning) -> None:
    tuning.run(add(1), times(3), sink=ALONE)
    renamed = times(3)
    renamed["with"]["name"] = "product"
    assert ExitCode.COMPLETE is tuning.run(add(1), renamed, sink=ALONE)
    assert 0 == tuning.count_rows("add")
    check_as_fresh(tuning, add(1), renamed, sink=ALONE)


@pytest.mark.parametrize(("notes", "worked"), [({"a": 1}, 0), ({"a": 1, "a.b": 2}, 60)])
def test_ambiguous_parameters_are_not_guessed(
    tuning: Tuning, notes: dict[str, int], worked: int
) -> None:
    for by in (3, 4):
        last = times(by)
        last["with"]["notes"] = notes
        assert ExitCode.COMPLETE is tuning.run(add(1), last, sink=ALONE)
    assert worked == tuning.count_rows("add")
    check_as_fresh(tuning, add(1), last, sink=ALONE)


@SINKS
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_changed_limit_of_marks_runs_no_earlier_stage(
    tuning: Tuning, sink: Item, *, is_marked: bool
) -> None:
    tuning.run(add(1), mark("n < 30"), sink=sink)
    chain = add(1), mark("n < 40", is_marked=is_marked)
    assert ExitCode.COMPLETE is tuning.run(*chain, sink=sink)
    assert (0, 60) == (tuning.count_rows("add"), tuning.count_rows("chosen"))
    check_as_fresh(tuning, *chain, sink=sink)


def test_a_filter_that_has_dropped_works_on_all_rows_again(tuning: Tuning) -> None:
    tuning.run(add(1), mark("n < 30", is_marked=False), sink=ALONE)
    chain = add(1), mark("n < 40")
    tuning.run(*chain, sink=ALONE)
    assert 60 == tuning.count_rows("add")
    check_as_fresh(tuning, *chain, sink=ALONE)


@pytest.mark.parametrize("policy", ["drop", "deadLetter"])
def test_rows_whose_column_failed_are_not_lost(tuning: Tuning, policy: str) -> None:
    tuned_stages.BROKEN.update([3, 23])
    tuning.run(add(1), times(3, onError=policy), sink=ALONE)
    tuned_stages.BROKEN.clear()
    # The error policy is not part of the recipe, but the ledger still records the previous policy.
    tuning.run(add(1), times(3), sink=ALONE)
    assert ExitCode.COMPLETE is tuning.run(add(1), times(4), sink=ALONE)
    assert tuning.count_rows("add") == (60 if policy == "drop" else 40)
    check_as_fresh(tuning, add(1), times(4), sink=ALONE)


@SINKS
def test_types_that_parquet_changes_are_restored(tuning: Tuning, sink: Item) -> None:
    types: Item = {"use": "tuned_stages:Types", "name": "types"}
    tuning.run(types, sink=sink)
    for word in ("is ", "was "):
        seen: Item = {"use": "tuned_stages:Schema", "name": "seen", "with": {"word": word}}
        tuning.run(types, seen, sink=sink)
        assert (0, 60) == (tuning.count_rows("types"), tuning.count_rows("seen"))
        check_as_fresh(tuning, types, seen, sink=sink)


def test_files_with_other_columns_than_received_are_not_read_back(tuning: Tuning) -> None:
    label: Item = {"use": "tuned_stages:Label"}
    tuning.run(add(1), label, sink=FEATURES)
    assert ExitCode.COMPLETE is tuning.run(add(1), label, times(2), sink=FEATURES)
    assert 60 == tuning.count_rows("add")
    check_as_fresh(tuning, add(1), label, times(2), sink=FEATURES)


def test_recomputed_columns_are_known_in_advance() -> None:
    start = Start("add", rule="sink-files", without=("times", "word"))
    assert "from the files of the sink without times, word" == describe_start(start)


TAILS = st.sampled_from(
    [
        (),
        (times(2),),
        (times(3),),
        (times(2), mark("n < 20")),
        (mark("n < 20"),),
        (mark("n < 30"),),
        (mark("n < 30", is_marked=False),),
        (mark("n < 30"), times(2)),
    ]
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=scale_examples(20))
@given(
    st.lists(st.tuples(TAILS, st.none() | st.integers(0, 60)), min_size=2, max_size=4),
    st.sampled_from([ALONE, SHARED, SEVERAL]),
    st.integers(1, 2),
)
def test_law_changed_columns_equal_those_of_a_fresh_run(
    edits: list[tuple[tuple[Item, ...], int | None]], sink: Item, above: int
) -> None:
    """Some of the runs crash at a step."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        tuning = Tuning(Path(folder))
        tuning.reader = {"use": "read-jsonl", "with": {"maxRows": 6}}
        for tail, crash in edits:
            if crash is None:
                tuning.run(add(above), below(50), *tail, sink=sink)
                continue
            # A run without work has fewer steps and may not reach the crash.
            with suppress(AssertionError), crashing_at(crash, patch):
                tuning.run(add(above), below(50), *tail, sink=sink)
        chain = add(above), below(50), *tail
        assert ExitCode.COMPLETE is tuning.run(*chain, sink=sink)
        check_as_fresh(tuning, *chain, sink=sink)
