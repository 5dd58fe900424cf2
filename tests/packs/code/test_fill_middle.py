"""Laws of `fill-middle`: every token stays, and only marks are added."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from stage_runs import Rows, StageRun
from strandline_packs.code.fill_middle import MiddleMarks, reorder

PREFIX, SUFFIX, MIDDLE, END = 0, 1, 2, 3
MARKS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<end>")
TOKENS = st.lists(st.integers(10, 99), max_size=12)


def write_tokenizer(folder: Path) -> str:
    vocabulary = {mark: number for number, mark in enumerate(MARKS)}
    path = folder / "tokenizer.json"
    path.write_text(Tokenizer(models.WordLevel(vocabulary, unk_token=MARKS[END])).to_str())
    return str(path)


def run(folder: Path, rows: Rows, **params: Any) -> tuple[Rows, StageRun]:
    stage = StageRun("fill-middle", tokenizer=write_tokenizer(folder), **params)
    return stage.rows(rows), stage


def restore(row: dict[str, Any]) -> list[int]:
    """Return the tokens in their original order, using the marks."""
    tokens = row["tokens"]
    if row["fill_middle"] is None:
        return list(tokens)
    end = [END] if tokens[-1] == END else []
    body = tokens[: len(tokens) - len(end)]
    prefix, suffix, middle = (body.index(mark) for mark in (PREFIX, SUFFIX, MIDDLE))
    assert prefix == 0
    last = body[suffix + 1 : middle]
    if row["fill_middle"] == "spm":
        assert suffix == 1
        # The beginning and the middle keep their order.
        return [*body[middle + 1 :], *last, *end]
    return [*body[1:suffix], *body[middle + 1 :], *last, *end]


@given(
    st.lists(TOKENS, min_size=1, max_size=6), st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_law_no_token_gets_lost(
    texts: list[list[int]], rate: float, suffix_first: float, seed: int, has_end: bool
) -> None:
    tail = [END] if has_end else []
    # An empty list of tokens has no type, so one row has a token.
    rows = [{"key": f"{at}", "tokens": [*text, *tail]} for at, text in enumerate([*texts, [7]])]
    with TemporaryDirectory() as folder:
        found, stage = run(
            Path(folder), rows, rate=rate, suffixFirst=suffix_first, seed=seed,
            end="<end>" if has_end else None,
        )  # fmt: skip
    assert list(map(restore, found)) == [row["tokens"] for row in rows]
    forms = [row["fill_middle"] for row in found]
    cut = len(forms) - forms.count(None)
    assert stage.counters["tokens out"] == stage.counters["tokens in"] + 3 * cut
    assert stage.counters["rows with their middle at the end"] == cut
    if rate == 1:
        assert all(row["tokens"] == [] or form for row, form in zip(rows, forms, strict=True))
    assert rate or not cut
    drawn = {"spm": suffix_first > 0, "psm": suffix_first < 1}
    assert all(form is None or drawn[form] for form in forms)


def test_rows_forms_and_cuts_are_drawn_by_key_and_seed(tmp_path: Path) -> None:
    rows: Rows = [{"key": f"{at}", "tokens": [*range(10, 30)]} for at in range(400)]
    first, _ = run(tmp_path, rows, seed=1)
    again, _ = run(tmp_path, rows[::-1], seed=1)
    other, _ = run(tmp_path, rows, seed=2)
    assert first == again[::-1]
    assert first != other
    forms = [row["fill_middle"] for row in first]
    assert 160 < forms.count(None) < 240
    assert 60 < forms.count("spm") < 140
    lengths = {row["tokens"].index(SUFFIX) - 1 for row in first if row["fill_middle"] == "psm"}
    assert min(lengths) <= 1
    assert max(lengths) >= 15


def test_a_larger_rate_cuts_the_same_rows_and_more(tmp_path: Path) -> None:
    rows: Rows = [{"key": f"{at}", "tokens": [10, 11]} for at in range(50)]
    cut = [
        {row["key"] for row in run(tmp_path, rows, rate=rate)[0] if row["fill_middle"]}
        for rate in (0.2, 0.6)
    ]
    assert cut[0] < cut[1]


def test_both_forms_have_their_parts_in_order() -> None:
    marks = MiddleMarks(PREFIX, SUFFIX, MIDDLE, END)
    tokens = [10, 11, 12, 13, END]
    assert reorder(tokens, (1, 3), "psm", marks) == [0, 10, 1, 13, 2, 11, 12, END]
    assert reorder(tokens, (1, 3), "spm", marks) == [0, 1, 13, 2, 10, 11, 12, END]
    # Nothing can be cut off past the end.
    assert reorder(tokens, (2, 5), "psm", marks) == [0, 10, 11, 1, 2, 12, 13, END]


def test_the_column_of_token_counts_is_updated(tmp_path: Path) -> None:
    rows: Rows = [{"key": "a", "tokens": [10, 11], "token_count": 2}]
    assert run(tmp_path, rows, rate=1)[0][0]["token_count"] == 5


def test_a_mark_missing_from_the_tokenizer_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the tokenizer has no token '<PRE>'"):
        run(tmp_path, [], prefix="<PRE>")


def test_a_column_without_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'tokens' holds string, not lists of whole numbers"):
        run(tmp_path, [{"key": "a", "tokens": "text"}])
