"""Filters that mark: rows they would drop stay, with a verdict and measures as columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from example_counts import scale_examples
from filter_cases import PROSE, ROWS, STAGES, WordScorer
from marked_rows import draw_rows, name_rows
from stage_runs import Rows, StageRun, build
from strandline.data.tables.row_filter import RowFilter
from strandline.plan.fingerprint import compute_fingerprint
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.registry import list_registered
from strandline_api.documents.problems import SpecError
from strandline_packs.text.scoring import score_perplexity


@pytest.fixture(autouse=True)
def _without_kenlm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_perplexity, "load_kenlm", lambda _path: WordScorer())


def mark(use: str, values: dict[str, Any]) -> StageRun:
    stage = StageRun(use, **values, mark=True)
    stage.stage.planned_name = use
    return stage


def drop_by_marks(table: pa.Table | None, marking: StageRun) -> tuple[str, Rows]:
    """Return the rows that `keep-rows` leaves, as text without the marks, and the marked rows."""
    keep, *others = marking.stage.list_marks()
    if table is None:
        return "[]", []
    left = StageRun("keep-rows", where=keep).table(table)
    shown = "[]" if left is None else repr(left.drop_columns([keep, *others]).to_pylist())
    return shown, table.to_pylist()


def test_every_filter_of_the_catalog_is_tested() -> None:
    filters = {use for use, each in list_registered().items() if issubclass(each, RowFilter)}
    assert filters == STAGES.keys()


@pytest.mark.parametrize("use", STAGES)
def test_law_marks_keep_the_same_rows_as_the_plain_filter(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    dropping, marking = StageRun(use, **values), mark(use, values)

    @settings(max_examples=scale_examples(25))
    @given(draw_rows(6))
    def law(drawn: Rows) -> None:
        table = name_rows(drawn)
        for stage in (dropping, marking):
            stage.counters.clear()
        left, marked = dropping.table(table), marking.table(table)
        shown, all_rows = drop_by_marks(marked, marking)
        assert ("[]" if left is None else repr(left.to_pylist())) == shown
        assert dropping.counters == marking.counters
        assert len(drawn) == len(all_rows)
        check_rules(marking.stage, all_rows)

    law()


@pytest.mark.parametrize("use", STAGES)
def test_law_a_stage_that_only_adds_columns_leaves_rows_unchanged(use: str, tmp_path: Path) -> None:
    """Without the added columns, the output equals the input."""
    values = STAGES[use](tmp_path)
    marking = mark(use, values)
    assert not StageRun(use, **values).stage.only_adds
    changes = {"extract-text", "repair-text", "normalise-text", "c4-quality", "identify-language"}
    changes |= {"drop-listed-sentences", "classify-text", "score-text", "score-perplexity"}
    assert marking.stage.only_adds == (use not in changes)
    if not marking.stage.only_adds:
        return

    @settings(max_examples=scale_examples(10))
    @given(draw_rows(6))
    def law(drawn: Rows) -> None:
        table = name_rows(drawn)
        marked = marking.table(table)
        assert marked is not None
        left = marked.drop_columns(list(marking.stage.list_added()))
        assert left.schema == table.schema
        assert repr(left.to_pylist()) == repr(table.to_pylist())  # NaN equals nothing

    law()


def check_rules(stage: RowFilter, marked: Rows) -> None:
    """Check that a row's reason is that of the first rule its measures violate."""
    rules, reason_column = stage.list_rules(), stage.name_mark("reason")
    begins = tuple(rule.reason for rule in rules)
    for row in marked:
        reason = row[reason_column]
        assert row[stage.name_mark("keep")] == (reason is None)
        broken = [rule.reason for rule in rules if rule.breaks(row[stage.name_measure(rule)])]
        if reason is None:
            assert not broken
        elif begins and reason.startswith(begins):
            assert reason.startswith(broken[0])


@pytest.mark.parametrize("use", STAGES)
def test_the_rows_of_each_filter_are_marked(use: str, tmp_path: Path) -> None:
    marking = mark(use, STAGES[use](tmp_path))
    marked = marking.rows(ROWS)
    keep = marking.stage.name_mark("keep")
    assert {True, False} == {row[keep] for row in marked}
    empty = marking.table(build(ROWS).slice(0, 0))
    assert empty is not None
    assert marking.table(build(ROWS)).schema.types[-2:] == empty.schema.types[-2:]  # type: ignore[union-attr]


@pytest.mark.parametrize("use", STAGES)
def test_runs_from_before_marks_existed_resume(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    stage = StageRun(use, **values).stage
    old = compute_fingerprint({use: (use, stage, None)})
    assert f"{use}.with.mark" not in old.parts
    assert compute_fingerprint({use: (use, mark(use, values).stage, None)}) != old


def test_measures_are_columns_named_after_the_stage() -> None:
    stage = StageRun("gopher-quality", mark=True, minDocWords=20)
    stage.stage.planned_name = "prose-rules"
    (row,) = stage.rows([{"text": PROSE * 3}])
    assert row["prose_rules_keep"] is True
    assert row["prose_rules_reason"] is None
    assert 51 == row["prose_rules_words"]
    assert 0 == row["prose_rules_hash_ratio"]
    (row,) = stage.rows([{"text": "one - # two"}])
    assert (False, "gopher_short_doc") == (row["prose_rules_keep"], row["prose_rules_reason"])
    # Rules after the first reason are measured too.
    assert 0.25 == row["prose_rules_hash_ratio"]
    assert {"dropped: gopher_short_doc": 1} == stage.counters


def test_all_sentences_are_counted_if_marked() -> None:
    text = "\n".join(["The tide came in. It went out again. He slept well."] * 4)
    (row,) = mark("c4-quality", {"minNumSentences": 2}).rows([{"text": text}])
    assert (12, len(text)) == (row["c4_quality_sentences"], row["c4_quality_characters"])


def test_a_column_with_a_marks_name_fails_the_source() -> None:
    stage = mark("repair-text", {})
    with pytest.raises(ValueError, match="'repair_text_keep', which `mark` would write"):
        stage.rows([{"text": "a", "repair_text_keep": 1}])


def test_a_column_with_a_marks_name_is_found_before_the_run() -> None:
    first, second, reader = mark("repair-text", {}), mark("repair-text", {}), StageRun("read-jsonl")
    message = second.stage.find_conflict([reader.stage, first.stage])
    assert message is not None
    assert "'repair_text_keep'" in message
    assert "already exists" in message
    second.stage.planned_name = "again"
    assert second.stage.find_conflict([reader.stage, first.stage]) is None
    assert mark("repair-text", {}).stage.find_conflict([]) is None
    assert "repair_text_reason" in first.stage.change_columns(Columns(("text",))).names


def test_marking_and_a_reason_column_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="`mark` and `reasonColumn` are mutually exclusive"):
        StageRun("repair-text", mark=True, reasonColumn="why")
    with pytest.raises((ValueError, SpecError)):
        StageRun("repair-text", mark="perhaps")
