"""Words in all scripts: counts, filters, signatures, and languages treat all forms alike."""

from __future__ import annotations

import unicodedata
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline_packs.dedup.benchmark_ngrams import normalise_words
from strandline_packs.dedup.near.minhash import Signer
from strandline_packs.text.filters.listed_words import WordFinder
from strandline_packs.text.filters.words.word_rules import (
    compose,
    find_sentences,
    is_mark,
    list_words,
    split_words,
)
from strandline_packs.text.text_quality import measure_text

# Sentences of ten words with signs and accents that are separate in one or both forms.
TEN_WORDS = {
    "Devanagari": "हम सब लोग समुद्र के किनारे बैठकर लहरें देखते हैं।",
    "Bengali": "আমরা সবাই সমুদ্রের তীরে বসে বড় ঢেউ দেখি আর গাই।",
    "Tamil": "நாங்கள் அனைவரும் கடற்கரையில் அமர்ந்து பெரிய அலைகளை மெதுவாக பார்த்து மகிழ்ந்து பாடுகிறோம்.",
    "Telugu": "మేము అందరం సముద్రం ఒడ్డున కూర్చుని పెద్ద అలలను మెల్లగా చూస్తూ పాడుతాము.",
    "Malayalam": "ഞങ്ങൾ എല്ലാവരും കടൽ തീരത്ത് ഇരുന്ന് വലിയ തിരകൾ പതുക്കെ നോക്കി പാടുന്നു.",
    "Arabic with vowels": "جَلَسَ الوَلَدُ عَلَى الشَّاطِئِ وَنَظَرَ إِلَى البَحْرِ ثُمَّ كَتَبَ رِسَالَةً.",
    "Hebrew with vowels": "הַיֶּלֶד יָשַׁב עַל הַחוֹף וְהִבִּיט אֶל הַיָּם הַגָּדוֹל כָּל הַיּוֹם.",
    "Vietnamese": "Chúng tôi ngồi bên bờ biển và ngắm con sóng.",
    "Polish": "Żółw łąką wędrował, śpiewając pieśń o morzu, gdzieś ćwierkały ptaki.",
    "Greek": "Όλοι μαζί καθόμαστε δίπλα στη θάλασσα και κοιτάζουμε τα κύματα.",
    "Korean": "우리는 모두 함께 넓은 바닷가에 앉아 높은 파도를 오래 바라본다.",
    "Amharic": "ሁላችንም በባሕር ዳር ተቀምጠን ትልልቅ ማዕበሎችን ቀስ ብለን እያየን እንዘምራለን።",
    "Tibetan": "ང་ཚོ་མི་ཀུན་མཚོ་འགྲམ་ལ་བསྡད་ནས་བལྟ།",
}
# Each letter with its signs is a word.
LETTERS = {
    "Thai": ("ที่นี่", ["ที่", "นี่"]),
    "Lao": ("ຢູ່", ["ຢູ່"]),
    "Khmer": ("ខ្មែរ", ["ខ្", "មែ", "រ"]),
    "Burmese": ("မြန်", ["မြ", "န်"]),
    "Japanese": ("がデータ", ["が", "デ", "ー", "タ"]),
    "Chinese": ("葛\U000e0100城市", ["葛\U000e0100", "城", "市"]),
}
Form = Literal["NFC", "NFD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("script", TEN_WORDS)
def test_signs_and_accents_are_part_of_a_word(script: str, form: Form) -> None:
    text = unicodedata.normalize(form, TEN_WORDS[script])
    assert len(list_words(text)) == 10, list_words(text)
    assert len([word for word in split_words(text) if not is_mark(word)]) == 10
    assert len(normalise_words(text)) == 10
    assert measure_text(text).letter_words == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("script", LETTERS)
def test_in_scripts_without_blanks_each_letter_with_its_signs_is_a_word(
    script: str, form: Form
) -> None:
    text, words = LETTERS[script]
    text = unicodedata.normalize(form, text)
    words = [unicodedata.normalize(form, word) for word in words]
    assert words == list_words(text) == split_words(text)


@pytest.mark.parametrize("script", TEN_WORDS)
def test_texts_without_common_words_have_different_signatures(script: str) -> None:
    words = list_words(TEN_WORDS[script])
    signer = Signer(words=1)
    first, second = signer.sign(" ".join(words[:5])), signer.sign(" ".join(words[5:]))
    assert first is not None
    assert second is not None
    same = sum(first[at : at + 4] == second[at : at + 4] for at in range(0, len(first), 4))
    assert same <= 3


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("ሰላም ነው። ደህና ነው።", 2),
        ("សួស្តី។ អរគុណ។", 2),
        ("मैं हूँ। तुम हो।", 2),
        ("Բարև։ Ինչպես ես։", 2),
        ("これは海。あれは山。", 2),
    ],
)
def test_sentences_end_at_the_marks_of_their_script(text: str, sentences: int) -> None:
    assert len(list(find_sentences(text))) == sentences


def test_invisible_characters_are_not_part_of_a_word() -> None:
    assert list_words(compose("Donau\u00addampf \u200fشاطئ\u200f \ufeffend")) == [
        "Donaudampf",
        "شاطئ",
        "end",
    ]
    assert split_words("👩‍💻 ☺️") == ["👩\u200d", "💻", "☺️"]
    # The joiner that separates parts of a Persian word belongs to the word.
    assert list_words(compose("می‌خواهم")) == ["می‌خواهم"]


def test_a_listed_word_is_not_found_in_a_word_that_continues_with_a_sign() -> None:
    finder = WordFinder(["कर"])
    assert finder.is_found("वह कर गया")
    assert not finder.is_found("वह करो गया")
    assert WordFinder(["café"]).is_found(unicodedata.normalize("NFD", "Im CAFÉ am Meer"))


texts = st.lists(
    st.sampled_from([*TEN_WORDS.values(), *(text for text, _ in LETTERS.values()), "\n", "... #"]),
    max_size=12,
).map(" ".join) | st.text(max_size=60)

STAGES: list[tuple[str, dict[str, Any]]] = [
    ("gopher-quality", {"minDocWords": 5, "maxAvgWordLength": 6, "reasonColumn": "why"}),
    ("gopher-repetition", {"reasonColumn": "why"}),
    ("fineweb-quality", {"reasonColumn": "why"}),
    ("c4-quality", {"maxWordLength": 12, "minWordsPerLine": 0, "minNumSentences": 2,
                    "filterNoTerminalPunct": False, "reasonColumn": "why"}),
    ("filter-text-quality", {"minWords": 5, "maxMeanWordLength": 6}),
    ("drop-listed-words", {"words": {"items": ["समुद्र", "biển", "がデ", "śpiewając"]},
                           "reasonColumn": "why"}),
    ("sign-texts", {"words": 2}),
    ("identify-language", {"minProbability": 0}),
]  # fmt: skip


@pytest.fixture(scope="module")
def stages() -> dict[str, StageRun]:
    return {use: StageRun(use, **values) for use, values in STAGES}


@given(text=texts)
def test_law_results_of_stages_do_not_depend_on_the_normal_form(
    stages: dict[str, StageRun], text: str
) -> None:
    for use, stage in stages.items():
        composed, apart = (
            decide(stage, unicodedata.normalize(form, text), unicodedata.normalize("NFC", text))
            for form in FORMS
        )
        assert composed == apart, use


def decide(stage: StageRun, text: str, key: str) -> list[dict[str, Any]]:
    rows = stage.rows(pa.table({"key": [key], "text": [text]}))
    return [
        {name: compose(value) if name == "text" else value for name, value in row.items()}
        for row in rows
    ]


@given(text=texts)
def test_law_counts_and_signatures_do_not_depend_on_the_form(text: str) -> None:
    composed, apart = (unicodedata.normalize(form, text) for form in FORMS)
    assert measure_text(composed) == measure_text(apart)
    assert Signer(words=2).sign(composed) == Signer(words=2).sign(apart)
    assert len(list_words(compose(composed))) == len(list_words(compose(apart)))
