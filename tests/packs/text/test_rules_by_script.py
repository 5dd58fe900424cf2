"""Filters on ordinary pages in many scripts, limits by language, and rules that drop everything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from script_pages import SENTENCES, write_pages
from stage_runs import StageRun
from strandline.plan.receipt import StageCounts
from strandline.plan.stages.registry import find_stage
from strandline.run.insight.funnel import find_sweeping_rules, view_rows
from strandline_api.documents.problems import SpecError
from strandline_packs.text.filters.presets.fineweb_2 import list_presets
from strandline_packs.text.filters.presets.gopher_quality import GopherQuality
from strandline_packs.text.filters.words.scripts import find_script

FILTERS: dict[str, dict[str, Any]] = {
    "gopher-quality": {"minDocWords": 30},
    "gopher-repetition": {},
    "fineweb-quality": {},
    "c4-quality": {"minNumSentences": 3},
    "filter-text-quality": {"minWords": 30},
}
PRESETS = {
    "zh": "cmn_Hani", "ja": "jpn_Jpan", "th": "tha_Thai", "ko": "kor_Hang", "km": "khm_Khmr",
    "hi": "hin_Deva", "ml": "mal_Mlym", "ru": "rus_Cyrl", "am": "amh_Ethi",
}  # fmt: skip


@pytest.mark.parametrize("use", FILTERS)
@pytest.mark.parametrize("language", SENTENCES)
def test_sensible_pages_stay_in_every_script(use: str, language: str) -> None:
    pages = write_pages(language)
    stage = StageRun(use, **FILTERS[use])
    assert pages == [row["text"] for row in stage.rows([{"text": page} for page in pages])], (
        stage.counters
    )


@pytest.mark.parametrize("use", FILTERS)
@pytest.mark.parametrize("language", SENTENCES)
def test_noise_is_dropped_in_every_script(use: str, language: str) -> None:
    noise = {
        "gopher-quality": "※ " * 200 + SENTENCES[language][0],
        "gopher-repetition": "\n".join([SENTENCES[language][0]] * 40),
        "fineweb-quality": "\n".join([SENTENCES[language][0]] * 40),
        "c4-quality": SENTENCES[language][0] + "{",
        "filter-text-quality": "\n".join([SENTENCES[language][0]] * 40),
    }
    assert StageRun(use, **FILTERS[use]).rows([{"text": noise[use]}]) == []


def test_a_rule_that_does_not_apply_to_a_script_is_counted() -> None:
    stage = StageRun("gopher-quality", minDocWords=30)
    stage.rows([{"text": page} for page in write_pages("ko")])
    assert stage.counters == {
        "no rule in Hangul: mean word length": 10,
        "no rule in Hangul: stop words": 10,
    }
    stage = StageRun("c4-quality", minNumSentences=3)
    stage.rows([{"text": page} for page in write_pages("th")])
    assert stage.counters == {
        "no rule in Thai: marks that end sentences": 10,
        "no rule in Thai: words of a line": 10,
    }


def test_all_rules_apply_in_compatible_mode() -> None:
    stage = StageRun("gopher-quality", minDocWords=30, compatible=True)
    assert stage.rows([{"text": page} for page in write_pages("ja")]) == []
    assert stage.counters == {"dropped: gopher_below_avg_threshold": 10}


def test_stop_words_are_required_only_in_their_own_script() -> None:
    texts = [{"text": page} for page in write_pages("ru")]
    words = ("и", "что", "на", "в")
    stage = StageRun("gopher-quality", minDocWords=30, stopWords=words, minStopWords=5)
    assert stage.rows(texts) == []
    assert StageRun("gopher-quality", minDocWords=30, stopWords=words).rows(texts) == texts


@pytest.mark.parametrize(("language", "preset"), PRESETS.items())
def test_sensible_pages_stay_by_the_limits_of_their_language(language: str, preset: str) -> None:
    pages = [{"text": page} for page in write_pages(language)]
    for use, values in FILTERS.items():
        if use not in {"c4-quality", "filter-text-quality"}:
            stage = StageRun(use, **values, preset=preset)
            assert stage.rows(pages) == pages, (use, stage.counters)


def test_explicit_parameters_override_a_preset() -> None:
    german = GopherQuality(preset="deu_Latn").params
    assert (german.max_avg_word_length, german.min_alpha_words_ratio) == (15, 0.774)
    assert "und" in (german.stop_words or ())
    written = GopherQuality.Params.model_validate({"preset": "deu_Latn", "maxAvgWordLength": 20})
    assert (written.max_avg_word_length, written.min_avg_word_length) == (20, 0)
    with pytest.raises(SpecError, match=r"unknown preset 'deu'; the presets are: deu_Latn"):
        GopherQuality(preset="deu")


@pytest.mark.parametrize("use", ["gopher-quality", "gopher-repetition", "fineweb-quality"])
def test_every_preset_is_valid(use: str) -> None:
    stage_class = find_stage(use)
    plain = stage_class().params.model_dump()
    for name in list_presets():
        limits = stage_class(preset=name).params.model_dump()
        assert {key for key in plain if plain[key] != limits[key]} > {"preset"}, name


@given(text=st.text(max_size=40))
def test_law_one_letter_more_of_a_script_does_not_make_it_another(text: str) -> None:
    script = find_script(text)
    letters = [letter for letter in text if find_script(letter) == script]
    if script and letters:
        assert find_script(text + letters[0]) == script


def count(rows: int, **dropped: int) -> StageCounts:
    names = {name.replace("_", " "): number for name, number in dropped.items()}
    return StageCounts(
        rows_in=rows, counters={f"dropped: {name}": number for name, number in names.items()}
    )


@pytest.mark.parametrize(
    ("counts", "messages"),
    [
        ({"a": count(10, short=10)}, ["one rule of a dropped all 10 rows: short"]),
        ({"a": count(10, short=9)}, []),
        ({"a": count(1000, short=991, long=9)}, ["one rule of a dropped 991 of 1,000 rows: short"]),
        ({"a": count(10, short=5, long=5)}, []),
        ({"a": count(2, short=2), "b": count(0)}, []),
        # A reader of 75 files drops 75 of their lines, or all lines.
        ({"a": replace(count(75, short=75), rows_out=7425)}, []),
        ({"a": count(75, short=7500)}, ["one rule of a dropped all 7,500 rows: short"]),
        ({"a": count(10), "b": count(10, other_language=10)},
         ["one rule of b dropped all 10 rows: other language"]),
    ],
)  # fmt: skip
def test_a_rule_that_drops_everything_is_reported(
    counts: dict[str, StageCounts], messages: list[str]
) -> None:
    assert messages == [str(rule) for rule in find_sweeping_rules(view_rows(counts))]
