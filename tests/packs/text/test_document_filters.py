"""The filters of Gopher, C4, and FineWeb: every rule has a text that violates it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline_packs.text.filters.presets.gopher_repetition import GopherRepetition
from strandline_packs.text.filters.repetition import (
    Ngrams,
    count_repeats,
    measure_joined,
    measure_ngrams,
)

PROSE = (
    "The keeper of the lighthouse climbed the stairs every evening with a can of oil. "
    "He trimmed the wick, wound up the clockwork and wrote the weather in the log.\n"
    "When the lamp was changed to electricity, nobody had to climb up there, and a house "
    "below was let to people that came to look at birds."
)
SENTENCES = "\n".join(f"This is the line number {n} of it." for n in "abcdef")


def judge(run: type[StageRun], use: str, text: str, **values: Any) -> str | None:
    """Return the reason for dropping a text, or None if the text stays."""
    stage = run(use, reasonColumn="why", **values)
    (row,) = stage.rows([{"text": text}])
    reason: str | None = row["why"]
    assert {f"dropped: {reason}": 1} == stage.counters or reason is None
    return reason


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        (PROSE, {}, None),
        ("", {}, "empty"),
        ("a b c\n\n" * 9, {}, "dup_para_frac"),
        ("long one and the same.\n\n" * 2 + "a\n\nb\n\nc\n\nd", {}, "dup_para_char_frac"),
        ("a b\n" * 9, {}, "dup_line_frac"),
        ("long one and the same.\n" * 2 + "a\nb\nc\nd", {}, "dup_line_char_frac"),
        ("a b\n" * 9, {"dupLineFrac": None, "dupLineCharFrac": 1}, "top_2_gram"),
        ("ab cd and ab cd or ab cd", {}, "top_2_gram"),
        ("ab cd ef and ab cd ef or", {"topNGrams": {3: 0.18}}, "top_3_gram"),
        (f"{PROSE} {PROSE[:90]} so", {}, "duplicated_5_n_grams"),
        (f"{PROSE} {PROSE[:90]} so", {"dupNGrams": {}}, None),
        ("Ships wait outside.", {}, None),
        # A single occurrence is not a repetition, although datatrove counts it as one.
        ("Ships wait outside.", {"compatible": True}, "top_2_gram"),
        ("a\nb\na", {"dupLineFrac": 0, "topNGrams": {}}, "dup_line_frac"),
        ("a\nb\na", {"dupLineFrac": 0, "dupLineCharFrac": 0, "topNGrams": {},
                     "compatible": True}, None),
    ],
)  # fmt: skip
def test_gopher_repetition(
    run: type[StageRun], text: str, values: dict[str, Any], reason: str | None
) -> None:
    assert reason == judge(run, "gopher-repetition", text, **values)


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        (PROSE, {}, None),
        ("", {}, "gopher_short_doc"),
        ("", {"minDocWords": 0}, "gopher_below_avg_threshold"),
        ("The tide of the sea.", {}, "gopher_short_doc"),
        (PROSE, {"maxDocWords": 20}, "gopher_long_doc"),
        ("a to of " * 20, {}, "gopher_below_avg_threshold"),
        ("Donaudampfschifffahrt " * 60, {}, "gopher_above_avg_threshold"),
        (PROSE + " #" * 9, {}, "gopher_too_many_hashes"),
        (PROSE + "…" * 9, {}, "gopher_too_many_ellipsis"),
        ("\n".join(["- the tide of seas"] * 20), {}, "gopher_too_many_bullets"),
        ("\n".join(["the long tides of all the seas and of land..."] * 9), {},
         "gopher_too_many_end_ellipsis"),
        (PROSE + " 2024" * 40, {}, "gopher_below_alpha_threshold"),
        ("Storm closes harbour " * 20, {}, "gopher_enough_stop_words"),
        ("Storm closes harbour " * 20, {"minStopWords": None}, None),
        ("Storm closes harbour " * 20, {"stopWords": ["Storm", "closes"]}, None),
        ("Storm closes harbour " * 20, {"language": "xx"}, None),
        (PROSE + " #", {"maxSymbolWordRatio": 0}, "gopher_too_many_hashes"),
        (PROSE + " #", {"maxSymbolWordRatio": 0, "compatible": True}, None),
        # Bullets are not words.
        ("▪ the tides of all those seas\n" * 8 , {}, "gopher_short_doc"),
        ("▪ the tides of all those seas\n" * 8 , {"compatible": True}, None),
    ],
)  # fmt: skip
def test_gopher_quality(
    run: type[StageRun], text: str, values: dict[str, Any], reason: str | None
) -> None:
    assert reason == judge(run, "gopher-quality", text, **values)


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        (SENTENCES, {}, None),
        ("", {}, "empty"),
        (" \n ", {}, "empty"),
        ("A line that has no stop at its end\n" * 2, {}, "line_punct_ratio"),
        ("A line that has no stop at its end", {"linePunctExcludeZero": True}, None),
        ("A line that has a colon at its end:", {"stopChars": [":"]}, None),
        ("A line that has a colon at its end =>", {"stopChars": ["=>"]}, None),
        ("\n".join(f"Short {n}." for n in range(4)), {}, "short_line_ratio"),
        ("\n".join(f"Short {n}." for n in range(4)), {"shortLineLength": 5}, None),
        (SENTENCES + "\n" + SENTENCES[:30], {}, None),
        (SENTENCES + "\n" + SENTENCES, {}, "char_dup_ratio"),
        (SENTENCES.replace("\n", "\n" * 9), {}, "list_ratio"),
        (SENTENCES.replace(".", ". "), {}, None),
        (SENTENCES.replace(".", ". "), {"compatible": True}, "line_punct_ratio"),
    ],
)
def test_fineweb_quality(
    run: type[StageRun], text: str, values: dict[str, Any], reason: str | None
) -> None:
    assert reason == judge(run, "fineweb-quality", text, **values)


@pytest.mark.parametrize(
    ("text", "values", "answer"),
    [
        (SENTENCES, {}, SENTENCES),
        (f" {SENTENCES}\nmenu\n", {}, SENTENCES),
        (SENTENCES[:70], {}, "dropped: too_few_sentences"),
        ("One is it. Two is it. Three is it. Four is it. Five is it.", {}, None),
        (f"{SENTENCES}\nThere is lorem ipsum in it.", {}, "dropped: lorem_ipsum"),
        (f"{SENTENCES}\nThere is a {{ in it.", {}, "dropped: curly_bracket"),
        (f"{SENTENCES}\nThere is a {{ in it", {}, SENTENCES),
        (f"{SENTENCES}\nPlease enable JavaScript now.", {}, SENTENCES),
        (f"{SENTENCES}\nOur site uses cookies for it.", {}, SENTENCES),
        (f"{SENTENCES}\nToo short.\nIt goes on and on...", {}, SENTENCES),
        (f"{SENTENCES}\nIt has a {'w' * 1001} in it.", {}, SENTENCES),
        (f"{SENTENCES}\nIt was built[3] then.", {}, f"{SENTENCES}\nIt was built then."),
        (f"{SENTENCES}\nIt was built then. [3]", {}, f"{SENTENCES}\nIt was built then."),
        (f"{SENTENCES}\nIt was built then. [3]", {"compatible": True}, SENTENCES),
        ("menu", {"minNumSentences": 0}, "dropped: empty"),
        ("menu", {"minNumSentences": 0, "compatible": True}, ""),
        ("menu and so on", {"minNumSentences": None, "filterNoTerminalPunct": False}, None),
        ("A one is\nthere. No\n\nB two is there.", {"unit": "sentences", "minNumSentences": 2},
         "A one is\nthere. No\n\nB two is there."),
    ],
)  # fmt: skip
def test_c4_quality(
    run: type[StageRun], text: str, values: dict[str, Any], answer: str | None
) -> None:
    stage = run("c4-quality", **values)
    rows = stage.rows([{"text": text, "n": 1}])
    if answer is not None and answer.startswith("dropped: "):
        assert [] == rows
        assert 1 == stage.counters[answer]
    else:
        assert [{"text": text if answer is None else answer, "n": 1}] == rows


def test_dropped_lines_are_counted_by_reason(run: type[StageRun]) -> None:
    stage = run("c4-quality")
    assert stage.rows([{"text": f"{SENTENCES}\nmenu\nmenu\nWe need JavaScript here."}])
    assert {"lines dropped: no_terminal_punc": 2, "lines dropped: javascript": 1} == stage.counters


def test_reasons_are_marked_and_the_first_one_stays(run: type[StageRun]) -> None:
    rows = [{"text": "The tide of the sea."}, {"text": PROSE}, {"text": SENTENCES}]
    first = run("gopher-quality", reasonColumn="why")
    second = run("c4-quality", reasonColumn="why")
    found = second.rows(first.rows(rows))
    assert [row["text"] for row in rows] == [row["text"] for row in found]
    expected = ["gopher_short_doc", "too_few_sentences", "gopher_short_doc"]
    assert expected == [row["why"] for row in found]
    assert {"dropped: gopher_short_doc": 2} == first.counters
    assert 1 == second.counters.pop("dropped: too_few_sentences")
    assert not [name for name in second.counters if name.startswith("dropped")]


def test_only_kept_texts_are_passed_on(run: type[StageRun]) -> None:
    stage = run("gopher-quality", column="body")
    assert [PROSE] == stage.column("body", ["short", PROSE, None])
    assert {"dropped: gopher_short_doc": 2} == stage.counters
    assert stage.table([{"body": "short"}]) is None


WORDS = st.lists(st.sampled_from(["a", "b", "ab", "c", "dd"]), max_size=60)


def count_again(words: list[str], n: int) -> int:
    """Return the size of repetitions, counted n-gram by n-gram."""
    seen: set[tuple[str, ...]] = set()
    at = size = 0
    while at + n <= len(words):
        ngram = tuple(words[at : at + n])
        if ngram in seen:
            size += sum(map(len, ngram))
            at += n
        else:
            seen.add(ngram)
            at += 1
    return size


@given(WORDS, st.integers(1, 10))
def test_law_repeated_ngrams_are_those_of_a_slow_count(words: list[str], n: int) -> None:
    assert count_again(words, n) == Ngrams(words).measure_repeated(n)


@given(WORDS, st.integers(1, 5))
def test_law_the_most_frequent_ngram_is_that_of_a_slow_count(words: list[str], n: int) -> None:
    ngrams = [" ".join(words[at : at + n]) for at in range(len(words) - n + 1)]
    most = max(map(ngrams.count, ngrams), default=0)
    first = next((ngram for ngram in ngrams if ngrams.count(ngram) == most), "")
    assert (most * len(first) if most > 1 else 0) == Ngrams(words).measure_top(n)


def test_joined_ngrams_may_be_equal_by_accident() -> None:
    words = ["ab", "c", "x", "a", "bc"]
    assert 3 == measure_joined(words, 2)
    assert 0 == Ngrams(words).measure_repeated(2)
    name = "duplicated_2_n_grams"
    assert [(name, 0)] == list(measure_ngrams(words, 12, [], [2]))
    assert [(name, 0.25)] == list(measure_ngrams(words, 12, [], [2], compatible=True))


def test_repeated_ngrams_are_not_counted_within_each_other() -> None:
    assert 4 == Ngrams(["a"] * 5).measure_repeated(2)


def test_repeats_of_lines() -> None:
    assert (2, 6) == count_repeats(["one", "two", "one", "one"])


def test_defaults_are_those_of_the_paper() -> None:
    params = GopherRepetition().params
    assert {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.1} == params.dup_n_grams
    assert {2: 0.2, 3: 0.18, 4: 0.16} == params.top_n_grams
