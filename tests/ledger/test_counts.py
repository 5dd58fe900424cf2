"""Counts of a ledger's current state include every source in one state, and every row once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_builders import counts, finish_of, listed, opened, output_of
from strandline.ledger.checks.counts import (
    MAY_HAVE_DEAD_LETTERS,
    StageTotals,
    count_data,
    count_dead_letters,
    count_finished,
    count_sources,
)
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    Finish,
    QuarantinedSource,
    SourceRecord,
    SourceState,
)
from strandline.ledger.store.recipes import RECIPES, Recipe
from strandline.ledger.store.rows import list_output_names, list_rows
from strandline.ledger.store.store import Store
from strandline.plan.receipt import CUT, DEAD, ROOT, Output, RowChange

STAGES = ("read", "filter", "write")
REASONS = st.dictionaries(st.sampled_from(["too long", "empty"]), st.integers(1, 9), max_size=2)


def use_stages(store: Store, *stages: str, since: int = 0) -> None:
    """Record the stages that attempts have used since this attempt."""
    known = store.read_meta(RECIPES) or []
    recipe = Recipe(since, {"order": ["files", *stages]}).pack()
    store.write(Change(meta={RECIPES: [*known, recipe], MAY_HAVE_DEAD_LETTERS: True}))


def finish(key: str, rows: int, *changes: RowChange, dead: int = 0) -> Finish:
    """Return a change that finishes a source with these rows, and dead letters of the filter."""
    source = listed(key)
    outputs = [output_of(source, ".parquet")._replace(rows=rows)]
    if dead:
        outputs.append(Output(b"t" * 16, f"{DEAD}filter", 1, b"d" * 16, dead))
    record = SourceRecord(key, tuple(outputs), changes=changes)
    return Finish(source.source, source.version, record)


@st.composite
def draw_source(draw: st.DrawFn) -> tuple[int, dict[str, int], int, int]:
    """Draw rows read, rows dropped by reason, dead letters, and remaining rows."""
    reasons, dead = draw(REASONS), draw(st.integers(0, 3))
    left = draw(st.integers(0, 50))
    return left + dead + sum(reasons.values()), reasons, dead, left


@given(sources=st.lists(draw_source(), max_size=8))
def test_law_rows_of_all_sources_add_up_stage_by_stage(
    sources: list[tuple[int, dict[str, int], int, int]],
) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder)) as store:
        use_stages(store, *STAGES)
        finished = []
        for number, (read, reasons, dead, left) in enumerate(sources):
            known = tuple(sorted(reasons.items()))
            changes = (RowChange("read", read - 1), RowChange("filter", left - read, known))
            finished.append(finish(f"key {number}", left, *changes, dead=dead))
        store.write(Change(finish=finished))
        found = count_finished(store)
        assert (found.counted, found.uncounted) == (len(sources), 0)
        read, left = sum(each[0] for each in sources), sum(each[3] for each in sources)
        dropped = Counter[str]()
        for _, reasons, *_ in sources:
            dropped.update(reasons)
        dead = sum(each[2] for each in sources)
        by_size = tuple(sorted(dropped.items(), key=lambda each: (-each[1], each[0])))
        assert found.stages == (
            StageTotals("read", len(sources), read),
            StageTotals("filter", read, left, dead, by_size),
            StageTotals("write", left, left),
        )
        assert found.data == count_data(store)
        assert (found.data.files, found.data.rows) == (len(sources), left)
        assert found.dead == count_dead_letters(store)
        assert found.dead.total == dead


def test_a_source_with_inconsistent_counts_is_omitted(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        use_stages(store, *STAGES)
        kept, older = finish("a", 5, RowChange("read", 4)), finish("b", 7)
        renamed = finish("c", 3, RowChange("former", 2))
        store.write(Change(finish=[kept, older, renamed]))
        found = count_finished(store)
        assert (found.counted, found.uncounted, found.data.rows) == (1, 2, 15)
        assert found.stages[0] == StageTotals("read", 1, 5)


def test_a_source_passes_the_stages_of_its_attempt(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        use_stages(store, "read", "former", "write")
        store.write(Change(finish=[finish("a", 5, RowChange("read", 9), RowChange("former", -5))]))
        use_stages(store, *STAGES, since=1)
        found = count_finished(store)
        assert (found.counted, found.uncounted) == (1, 0)
        assert found.stages == (
            StageTotals("read", 1, 10),
            StageTotals("filter"),
            StageTotals("write", 5, 5),
            StageTotals("former", 10, 5),
        )


def test_rows_of_a_table_in_a_listing_enter_the_pipeline(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        use_stages(store, *STAGES)
        store.write(Change(finish=[finish("a", 10, RowChange(ROOT, 9))]))
        assert count_finished(store).stages[0] == StageTotals("read", 10, 10)


def test_a_finished_source_whose_replacement_failed_counts_as_failed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        finished = [finish(key, 1) for key in "abcd"]
        store.write(Change(finish=finished))
        sources = [each.source for each in finished]
        version = finished[0].version
        fail = FailureRecord("a", 2, "filter", "no", 1, version)
        held = QuarantinedSource("b", version, 2, "Killed", "", "no", 3)
        note = FailureRecord("c", 2, "read kept output", "a file is gone", 0, version)
        change = Change(fail=[(sources[0], fail), (sources[2], note)])
        change.quarantine.append((sources[1], held))
        store.write(change)
        assert count_sources(store) == counts(finished=2, failed=1, quarantined=1)
        states = Counter(row.state for row in list_rows(store))
        assert states == {
            SourceState.FINISHED: 2,
            SourceState.FAILED: 1,
            SourceState.QUARANTINED: 1,
        }
        assert all(len(row.outputs) == 1 for row in list_rows(store))
        assert count_data(store).rows == len(list_output_names(store)) == 4


def test_cuts_and_dead_letters_are_not_files_for_readers(tmp_path: Path) -> None:
    source = listed("a")
    cut = Output(b"c" * 16, f"{CUT}filter@0", 9, b"d" * 16, 5)
    dead = Output(b"t" * 16, f"{DEAD}filter", 9, b"d" * 16, 5)
    with opened(tmp_path) as store:
        store.write(Change(finish=[finish_of(source, output_of(source), cut, dead)]))
        (name,) = list_output_names(store)
        assert name.endswith(".txt")
        assert (count_data(store).files, count_data(store).rows) == (1, 1)


@pytest.mark.parametrize(
    ("stage", "share"),
    [
        (StageTotals("f"), None),
        (StageTotals("f", 100, 100), 1.0),
        (StageTotals("f", 10, 30), 3.0),  # a stage may turn one row into several
        (StageTotals("f", 100, 75, 0, (("too short", 25),)), 0.75),
        (StageTotals("read", 2, 75, 0, (("no object", 25),)), 0.75),  # rows that a reader finds
        (StageTotals("f", 100, 75, 25), 0.75),
    ],
)
def test_a_share_refers_to_the_evaluated_rows(stage: StageTotals, share: float | None) -> None:
    assert stage.share_kept == share
