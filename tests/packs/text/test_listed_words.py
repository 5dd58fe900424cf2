"""Texts with listed words: how words are found, which texts stay, and fingerprints of lists."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError
from strandline.errors import SpecError
from strandline.plan.packages import list_missing
from strandline.plan.stages.registry import find_stage
from strandline_packs.text.filters.listed_words import WordFinder

REASON = "document_removed_with_badwords"
DROPPED = f"dropped: {REASON}"


def create(**values: Any) -> Any:
    return find_stage("drop-listed-words")(**values)


def list_texts(count: int) -> list[str]:
    return [f"The gull {number} cries." for number in range(count)]


@pytest.mark.parametrize(
    ("item", "text", "is_found"),
    [
        ("gull", "A Gull!", True),
        ("gull", "gull", True),
        ("gull", "Seagulls, gulls, gull_1", False),
        ("Rotten Herring", "a\nROTTEN HERRING.", True),
        ("rotten herring", "rotten\nherring", False),
        ("rotten herring", "rotten herrings, rotten herring", True),
        ("rotten herring", "rotten herrings", False),
        ("rotten herring", "forgotten herring", False),
        ("*fish", "f*fish", False),
        ("f*sh", "a f*sh", True),
        ("f*sh", "a fish", False),
        ("🐟", "ah🐟 ", False),
        ("🐟", "ah 🐟🐟", True),
        ("möwe", "Die MÖWE", True),
        ("", "anything", False),
    ],
)
def test_a_word_is_found_between_other_characters_than_letters(
    item: str, text: str, is_found: bool
) -> None:
    stage = StageRun("drop-listed-words", words={"items": [item, " "]})
    assert ([] if is_found else [text]) == stage.column("text", [text])
    assert ({DROPPED: 1} if is_found else {}) == stage.counters


ITEMS = st.sets(st.text("ab .*é", min_size=1, max_size=3), min_size=1, max_size=4)
# Texts made of items and separators, to get many matches and near matches.
TEXTS = ITEMS.flatmap(
    lambda items: st.tuples(
        st.just(items),
        st.lists(st.sampled_from([*sorted(items), *"aB_ .É\n"]), max_size=6).map("".join),
    )
)


@given(TEXTS, st.booleans())
def test_law_found_words_equal_those_of_one_combined_pattern(
    drawn: tuple[set[str], str], anywhere: bool
) -> None:
    items, text = drawn
    either = "|".join(map(re.escape, items))
    pattern = either if anywhere else rf"(?:\W|^)(?:{either})(?:\W|$)"
    expected = re.search(pattern, text.lower()) is not None
    assert expected == WordFinder(items, anywhere=anywhere).is_found(text)


def test_a_text_is_compared_with_the_list_of_its_language(tmp_path: Path) -> None:
    german = tmp_path / "de.txt"
    german.write_text("# of ours\n\nGift\n")
    stage = StageRun(
        "drop-listed-words",
        words={"items": ["casino"]},
        languages={
            "de": {"paths": [str(german)]},
            "ja": {"items": ["かもめ"]},
            "th": {"items": ["นก"], "anywhere": False},
            "fi": {"items": ["lokki"], "anywhere": True},
        },
        languageColumn="language",
    )
    texts = [
        ("de", "Das Gift der See."), ("de", "Giftig war es."), ("de", "Ein Casino."),
        ("en", "A gift of the sea."), ("en", "A casino."), (None, "gift"),
        ("ja", "白いかもめが鳴く。"), ("th", "นกนางนวล"), ("fi", "Kalalokkien saari."),
    ]  # fmt: skip
    rows = [{"language": code, "text": text} for code, text in texts]
    assert [rows[at] for at in (1, 3, 5, 7)] == stage.rows(rows)
    assert {DROPPED: 5, "texts of languages without a list": 3} == stage.counters


def test_the_kept_share_depends_only_on_the_text() -> None:
    texts = list_texts(400)

    def keep(given: list[str], **values: Any) -> set[str]:
        stage = StageRun("drop-listed-words", words={"items": ["gull"]}, **values)
        kept = set(stage.column("text", given))
        assert len(given) - len(kept) == stage.counters.get(DROPPED, 0)
        assert len(kept) == stage.counters.get("kept with a listed word", 0)
        return kept

    third = keep(texts, keepFraction=0.3)
    assert 80 < len(third) < 160
    assert third == keep(texts[::-1], keepFraction=0.3)
    assert third & set(texts[:50]) == keep(texts[:50], keepFraction=0.3)
    assert third < keep(texts, keepFraction=0.6)
    assert third != keep(texts, keepFraction=0.3, seed=1)
    assert set() == keep(texts)
    assert set(texts) == keep(texts, keepFraction=1)


def test_dropped_texts_can_be_marked_and_earlier_reasons_stay() -> None:
    stage = StageRun("drop-listed-words", words={"items": ["gull"]}, reasonColumn="why")
    rows = [{"text": "a gull", "why": "short"}, {"text": "a gull", "why": ""}, {"text": "a tern"}]
    assert ["short", REASON, None] == [row["why"] for row in stage.rows(rows)]
    assert {DROPPED: 1} == stage.counters


def test_the_fingerprint_covers_the_lists(tmp_path: Path) -> None:
    path = tmp_path / "de.txt"
    digests = []
    for text in ("a\nb\n", "B\n\na\n", "a\nc\n"):
        path.write_text(text)
        stage = create(languages={"de": {"paths": [str(path)]}}, languageColumn="language")
        digests.append(stage.digest_inputs())
    assert {"words", "languages.de"} == digests[0].keys()
    assert digests[0] == digests[1] != digests[2]
    assert [("languages.de.paths[0]", str(path))] == list(stage.params.list_places())
    assert {"text", "language"} == set(stage.list_needed_columns())
    path.write_text("d\n")
    with pytest.raises(ChangedListError, match=r"languages\.de: the list has changed"):
        stage.setup()


def test_mistakes_are_found_when_a_run_is_planned() -> None:
    with pytest.raises(SpecError, match=r"gone\.txt: No such file"):
        create(words={"paths": ["gone.txt"]})
    with pytest.raises(SpecError, match="`languages` needs `languageColumn`"):
        create(languages={"de": {"items": ["Gift"]}})


@pytest.mark.slow
@pytest.mark.skipif(bool(list_missing(["datatrove"])), reason="make rivals")
def test_found_words_equal_those_of_datatrove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datatrove.data import Document  # noqa: PLC0415 - may not be there
    from datatrove.pipeline.filters import C4BadWordsFilter, c4_filters  # noqa: PLC0415

    path = tmp_path / "list"
    path.write_text("tide\nthe lamp\nof\n潮\nf*sh\n", encoding="utf-8")
    # Otherwise datatrove would download its lists.
    monkeypatch.setattr(c4_filters, "cached_asset_path_or_download", lambda *_, **__: str(path))
    theirs = C4BadWordsFilter()
    texts = [
        "The Tide.", "tides", "the\nlamp", "The lamp", "f*sh", "xf*sh", "潮は", "潮", "", "of_it",
        "hereof", "of", "(of)", "a-of-b",
    ]  # fmt: skip
    rows = [{"text": text, "language": code} for code in ("en", "ja", "de") for text in texts]
    expected = [
        row
        for row in rows
        if theirs.filter(Document(text=row["text"], id="", metadata={"language": row["language"]}))
        is True
    ]
    languages = {code: {"paths": [str(path)]} for code in ("en", "ja", "de")}
    stage = StageRun("drop-listed-words", languages=languages, languageColumn="language")
    assert expected == stage.rows(rows)
    assert 0 < len(expected) < len(rows)
