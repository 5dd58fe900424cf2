"""Drops predicted from marked rows: each number equals that of a run with the limit."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from example_counts import scale_examples
from filter_cases import STAGES, WordScorer
from marked_rows import draw_rows, name_rows
from stage_runs import Rows, StageRun
from strandline.data.tables.row_filter import RowFilter
from strandline.data.tables.rules import Rule
from strandline.run.revise.marks.thresholds import MeasuredRows, Threshold, count_rows
from strandline_packs.text.scoring import score_perplexity

LIMITED = sorted(
    set(STAGES)
    - {"drop-duplicates", "drop-listed", "drop-listed-sentences", "drop-listed-words", "drop-seen",
       "extract-text", "filter-rows", "filter-urls", "keep-rows", "normalise-text", "repair-text"}
)  # fmt: skip
NUMBERS = st.floats(0, 1) | st.integers(0, 100).map(float)
LEAST = Rule("few", "words", "minWords", 3, is_least=True, is_count=True)
MOST = Rule("many", "words", "maxWords", None, is_count=True)
HASHES = Rule("hashes", "hashes", "maxSymbols", 0.5)
DOTS = Rule("dots", "dots", "maxSymbols", 0.5)


@pytest.fixture(autouse=True)
def _without_kenlm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_perplexity, "load_kenlm", lambda _path: WordScorer())


def read(stage: RowFilter, marked: Rows) -> MeasuredRows:
    """Return marked rows in the form that `strandline tune` uses."""
    measures = {
        rule.measure: np.array([row[stage.name_measure(rule)] for row in marked], np.float64)
        for rule in stage.list_rules()
    }
    return MeasuredRows(measures, [row[stage.name_mark("reason")] for row in marked])


def with_limit(values: dict[str, Any], stage: RowFilter, rule: Rule, at: float) -> dict[str, Any]:
    """Return the parameters with another limit, also inside a mapping or a list."""
    name, *keys = rule.parameter.split(".")
    limit = int(at) if rule.is_count else at
    if not keys:
        return values | {name: limit}
    whole = stage.params.model_dump(by_alias=True)[name]
    if len(keys) == 1:
        return values | {name: whole | {int(keys[0]): limit}}
    bounds = list(whole[keys[0]])
    bounds[int(keys[1])] = limit
    return values | {name: whole | {keys[0]: bounds}}


def limit_anew(run: StageRun, values: dict[str, Any]) -> StageRun | None:
    """Return the stage with other limits, or None if a parameter rejects its value.

    The new stage skips its setup, which takes a second for some stages.
    """
    other = copy.copy(run)
    other.stage = copy.copy(run.stage)
    try:
        other.stage.params = type(run.stage.params).model_validate(values)
    except ValidationError:
        return None
    vars(other.stage).pop("_rule_set", None)
    return other


@pytest.mark.parametrize("use", sorted(set(STAGES) - set(LIMITED)))
def test_other_stages_have_no_limits(use: str, tmp_path: Path) -> None:
    assert not StageRun(use, **STAGES[use](tmp_path)).stage.list_rules()


@pytest.mark.parametrize("use", LIMITED)
def test_law_a_run_with_a_limit_drops_the_rows_predicted_from_marks(
    use: str, tmp_path: Path
) -> None:
    values = STAGES[use](tmp_path)
    marking, dropping = StageRun(use, **values, mark=True), StageRun(use, **values)
    rules = [rule for rule in marking.stage.list_rules() if rule.parameter]
    assert rules

    @settings(max_examples=scale_examples(15))
    @given(draw_rows(10), st.data())
    def law(drawn: Rows, data: st.DataObject) -> None:
        table = name_rows(drawn)
        rows = read(marking.stage, marking.rows(table))
        rule = data.draw(st.sampled_from(rules))
        value = data.draw(st.integers(0, 12) if rule.is_count else NUMBERS)
        counts = count_rows(marking.stage.list_rules(), rows, {rule.parameter: [value]})
        assert counts.dropped == len(drawn) - len(dropping.rows(table))
        assert sum(counts.reasons.values()) == counts.dropped
        (each,) = (each for each in counts.rules if each.rule == rule)
        threshold = data.draw(st.sampled_from(each.thresholds))
        other = limit_anew(dropping, with_limit(values, dropping.stage, rule, threshold.at))
        if other is not None:
            assert threshold.together == len(drawn) - len(other.rows(table))
            assert threshold.alone <= threshold.taken <= each.measured

    law()


ROWS = MeasuredRows(
    {
        "words": np.array([1.0, 2, 3, 4, math.nan]),
        "hashes": np.array([0.0, 0.6, 0.6, 0.0, 0.0]),
        "dots": np.array([0.0, 0.0, 0.0, 0.7, 0.0]),
    },
    ["few", "few", "hashes", "dots", "empty"],
)


def test_rows_are_counted_by_rule_and_together() -> None:
    counts = count_rows([LEAST, MOST, HASHES, DOTS], ROWS, {"minWords": [2], "maxWords": [3]})
    assert (5, 5, 1) == counts[:3]
    assert {"few": 2, "dots": 1, "empty": 1, "hashes": 1} == counts.reasons
    assert ["few", "dots", "empty", "hashes"] == list(counts.reasons)
    least, most, hashes, dots = counts.rules
    assert (Threshold(1, 0, 0, 4, False), Threshold(2, 1, 1, 5, False),
            Threshold(3, 2, 1, 5, True)) == least.thresholds  # fmt: skip
    assert 4 == least.measured
    assert [4, 3] == [each.at for each in most.thresholds]
    assert not any(each.is_current for each in most.thresholds)
    # Both rules share a parameter, so `alone` ignores drops of the other rule.
    assert Threshold(0.5, 2, 1, 5, True) in hashes.thresholds
    assert Threshold(0.5, 1, 1, 5, True) in dots.thresholds
    assert Threshold(0.7, 0, 0, 3, False) in dots.thresholds


def test_rows_dropped_for_other_reasons_are_dropped_at_any_limit() -> None:
    counts = count_rows([], ROWS, {})
    assert (5, 5, 5) == counts[:3]
    assert () == counts.rules
    nothing = count_rows([LEAST], MeasuredRows({}, []), {"minWords": [1]})
    assert (0, 0, 0) == nothing[:3]
    assert [0, 0] == [each.together for each in nothing.rules[0].thresholds]


def test_an_infinite_measure_is_no_value_of_a_limit() -> None:
    rows = MeasuredRows({"hashes": np.array([math.inf, 0.25])}, ["hashes", None])
    (rule,) = count_rows([HASHES], rows, {}).rules
    assert [0.5, 0.25] == [each.at for each in rule.thresholds]
    assert 2 == rule.measured
