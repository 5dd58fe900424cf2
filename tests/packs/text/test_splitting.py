"""Words and sentences by our own rules, spaCy's, and NLTK's."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.plan.packages import advise
from strandline_packs.text.filters import splitting as splitting_module
from strandline_packs.text.filters.splitting import (
    SpacySplitter,
    Splitting,
    UnknownLanguageError,
    load_splitter,
)
from strandline_packs.text.filters.words.punctuation import LISTED_MARKS, TERMINAL_MARKS
from strandline_packs.text.filters.words.word_rules import find_sentences, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's a well-known fact.", ["It", "'s", "a", "well", "-", "known", "fact", "."]),
        ("don’t 'quote' (1,000.5)", ["don", "’t", "'", "quote", "'", "(", "1,000.5", ")"]),
        ("wait... §3 __x ====", ["wait", "...", "§", "3", "__x", "===="]),
        ("see https://a.org/b?c=1-2 now", ["see", "https://a.org/b?c=1-2", "now"]),
        ("潮は満ちる。 café", ["潮", "は", "満", "ち", "る", "。", "café"]),
        ("हिन्दी में लिखा।", ["हिन्दी", "में", "लिखा", "।"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        (" \n\t", []),
    ],
)
def test_words_by_rules(text: str, words: list[str]) -> None:
    assert words == split_words(text)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is it. Two is it! Is it?", ["One is it.", "Two is it!", "Is it?"]),
        ("Dr. Smith met J. Doe, e.g. at sea. Then he left.",
         ["Dr. Smith met J. Doe, e.g. at sea.", "Then he left."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("It is 3.14 or so. and it goes on.", ["It is 3.14 or so. and it goes on."]),
        ("潮は満ちる。岩を覆う！終", ["潮は満ちる。", "岩を覆う！", "終"]),
        ("no end", ["no end"]),
        ("  ", []),
    ],
)  # fmt: skip
def test_sentences_by_rules(text: str, sentences: list[str]) -> None:
    assert sentences == [text[start:end].strip() for start, end in find_sentences(text)]


@given(st.text(max_size=80))
def test_law_words_cover_all_nonblank_text(text: str) -> None:
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert len(words) >= len(text.split())


@given(st.text(alphabet='aB.!? 。"\n', max_size=60))
def test_law_sentences_leave_no_gap(text: str) -> None:
    spans = list(find_sentences(text))
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert "".join(text.split()) == "".join("".join(text[a:b] for a, b in spans).split())


def test_marks_of_many_scripts() -> None:
    assert set(".!?。？।؟") <= TERMINAL_MARKS
    assert not set("\",;:'…") & TERMINAL_MARKS
    assert set("#-{»—") <= LISTED_MARKS - TERMINAL_MARKS
    assert not set("•▪→aé5") & LISTED_MARKS


@pytest.mark.parametrize("splitting", list(Splitting))
def test_every_library_splits_the_same_simple_text(splitting: Splitting) -> None:
    splitter = load_splitter(splitting)
    text = "The tide comes in. It covers\n the rocks, twice a day."
    words = "The tide comes in . It covers the rocks , twice a day ."
    assert words.split() == splitter.split_words(text)
    spans = splitter.find_sentences(text)
    assert ["The tide comes in.", "It covers\n the rocks, twice a day."] == [
        text[start:end].strip() for start, end in spans
    ]


def test_spacy_is_reloaded_before_its_vocabulary_fills_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splitter = SpacySplitter("de")
    first = splitter._pipeline
    monkeypatch.setattr(splitting_module, "_MOST_CHARACTERS", 30)
    assert ["Die", "Flut"] == splitter.split_words("Die Flut")
    assert first is splitter._pipeline
    assert 5 == len(splitter.split_words("kommt zweimal am Tag und"))
    assert first is not splitter._pipeline
    assert ["Die", "Flut"] == splitter.split_words("Die Flut")


def test_a_language_without_rules_is_named(run: type[StageRun]) -> None:
    with pytest.raises(UnknownLanguageError, match="spaCy has no rules for the language 'qq'"):
        run("gopher-quality", splitting="spacy", language="qq")


def test_a_missing_library_is_reported_only_when_it_must_split(
    run: type[StageRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert () == run("gopher-quality").stage.packages
    assert ("nltk",) == run("gopher-quality", splitting="nltk").stage.packages
    assert "pip install 'strandline[splitting]'" == advise("spacy")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError):
        run("c4-quality", splitting="spacy")
