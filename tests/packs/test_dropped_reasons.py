"""Stages that drop rows can record the reason in a column instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from filter_cases import ROWS, STAGES, WordScorer
from stage_runs import StageRun
from strandline_packs.text.scoring import score_perplexity


@pytest.fixture(autouse=True)
def _without_kenlm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_perplexity, "load_kenlm", lambda _path: WordScorer())


@pytest.mark.parametrize("use", STAGES)
def test_rows_to_be_dropped_are_marked(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    dropping, marking = StageRun(use, **values), StageRun(use, **values, reasonColumn="why")
    left, marked = dropping.rows(ROWS), marking.rows(ROWS)
    assert dropping.counters == marking.counters
    assert [row["key"] for row in marked] == [row["key"] for row in ROWS]
    kept = [row for row in marked if row["why"] is None]
    assert [row | {"why": None} for row in left] == kept
    reasons = [row["why"] for row in marked if row["why"]]
    assert reasons
    for reason in set(reasons):
        assert marking.counters[f"dropped: {reason}"] == reasons.count(reason)


@pytest.mark.parametrize("marked", ["abcd", "bc", "ad", "d"])
@pytest.mark.parametrize("use", STAGES)
def test_rows_that_are_already_marked_are_ignored(use: str, marked: str, tmp_path: Path) -> None:
    rows = [row | {"why": "earlier" if row["key"] in marked else None} for row in ROWS]
    values = STAGES[use](tmp_path) | {"reasonColumn": "why"}
    stage, other = StageRun(use, **values), StageRun(use, **values)
    passed = stage.rows(rows)
    assert [row["key"] for row in rows] == [row["key"] for row in passed]
    for before, after in zip(rows, passed, strict=True):
        if before["why"]:
            assert after == {name: before.get(name) for name in after}
    alone = other.rows([row for row in rows if not row["why"]]) if len(marked) < len(rows) else []
    assert alone == [row for row in passed if row["key"] not in marked]
    assert other.counters == stage.counters


@pytest.mark.parametrize("use", STAGES)
def test_the_name_of_the_stage_is_recorded_beside_its_reasons(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    stage = StageRun(use, **values, reasonColumn="why", stageColumn="by")
    stage.stage.planned_name = "mine"
    rows = [row | {"why": None, "by": None} for row in ROWS]
    rows[0] |= {"why": "earlier", "by": "another"}
    passed = stage.rows(rows)
    assert "another" == passed[0]["by"]
    assert [row["why"] and "mine" for row in passed[1:]] == [row["by"] for row in passed[1:]]
    assert "stage_column" in stage.stage.added_params  # existing runs must resume


@pytest.mark.parametrize("reason", [None, "by"])
def test_a_stage_column_requires_a_reason_column(reason: str | None) -> None:
    with pytest.raises(ValueError, match="`stageColumn` requires `reasonColumn`, and both"):
        StageRun("normalise-text", reasonColumn=reason, stageColumn="by")


def test_a_copy_of_a_marked_row_counts_as_the_first() -> None:
    rows = [{"text": "same", "why": "earlier"}, {"text": "same", "why": None}]
    stage = StageRun("drop-duplicates", within="task", columns=["text"], reasonColumn="why")
    assert [row["why"] for row in stage.rows(rows)] == ["earlier", None]
