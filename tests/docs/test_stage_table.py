"""The table of stages and columns matches what stages declare and do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from filter_cases import ROWS, STAGES, WordScorer
from stage_runs import Rows, StageRun
from stage_table import PAGE, list_inner, main, render_page
from strandline.cli.views.stage_catalogue import describe_scope, read_columns
from strandline.plan.stages.packs import load_own_packs
from strandline.plan.stages.registry import find_stage
from strandline_packs.text.scoring import score_perplexity

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert render_page() == TEXT


def test_a_stale_page_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / PAGE).parent.mkdir()
    assert main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "stage-table.md is out of date; run: make reference\n"
    assert main([], tmp_path) == main(["--check"], tmp_path) == 0


def test_every_stage_has_a_row() -> None:
    rows = [line.split("|")[1].strip() for line in TEXT.splitlines() if line.startswith("| `")]
    assert rows == [f"`{name}`" for pack in load_own_packs().values() for name in list_inner(pack)]
    assert len(rows) > 60


@pytest.fixture(autouse=True)
def _without_kenlm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_perplexity, "load_kenlm", lambda _path: WordScorer())


def work_on_rows_alone(stage: StageRun) -> Rows:
    return [answer for row in ROWS for answer in stage.rows([row])]


@pytest.mark.parametrize("use", STAGES)
def test_law_a_row_stage_judges_each_row_independently(use: str, tmp_path: Path) -> None:
    scope = describe_scope(find_stage(use)).partition(";")[0]
    stage = StageRun(use, **STAGES[use](tmp_path))
    is_same = stage.rows(ROWS) == work_on_rows_alone(stage)
    # Two rows have the same text, which affects only stages that compare rows.
    assert is_same == (scope in {"row", "list"})


@pytest.mark.parametrize("use", STAGES)
def test_a_stage_changes_columns_as_its_row_states(use: str, tmp_path: Path) -> None:
    values: dict[str, Any] = STAGES[use](tmp_path)
    declared = read_columns(find_stage(use), values)
    assert declared is not None
    table = StageRun(use, **values).table(ROWS)
    assert table is not None
    before, after = set(ROWS[0]), set(table.column_names)
    assert set(declared.needed) <= before
    assert after - before == set(declared.added) - before
    assert before - after == set(declared.removed)
    assert declared.keeps_others
