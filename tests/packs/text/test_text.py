"""The stages for prose: parsing, normal form, language, quality."""

import unicodedata
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.text.normalise_text import normalise
from strandline_packs.text.parse_documents import UndecodableError, decode_text, extract_html_text
from strandline_packs.text.text_quality import count_stop_words, measure_text

PROSE = (
    "The keeper of the lighthouse climbed the stairs every evening with a can of oil. "
    "He trimmed the wick, wound up the clockwork and wrote the weather in the log.\n"
    "When the lamp was changed to electricity, nobody had to climb the stairs, and the house "
    "below was let to people that came to look at the sea and at the birds."
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_are_detected(encoding: str) -> None:
    assert "Möwe – 3 €" == decode_text("Möwe – 3 €".encode(encoding), "cp1252")


@pytest.mark.parametrize(
    ("content", "fallback", "reason"),
    [
        (b"\x7fELF\x00\x01", "cp1252", "binary"),
        (b"\xe9t\xe9", None, "not utf-8"),
        (b"\x81", "cp1252", "not cp1252"),
        (b"\xff\xfe\x00", "cp1252", "not utf-16"),
    ],
)
def test_other_content_than_text_is_refused(
    content: bytes, fallback: str | None, reason: str | None
) -> None:
    with pytest.raises(UndecodableError, match=reason):
        decode_text(content, fallback)


def test_documents_of_three_formats(run: type[StageRun]) -> None:
    rows = [
        {"key": "a.txt", "content": b"plain"},
        {"key": "b.HTML", "content": b"<p>page</p>"},
        {"key": "c.jsonl", "content": b'{"text": "one"}\n\n{"text": "three"}'},
    ]
    documents = [
        (row["key"], row["format"], row["text"]) for row in run("parse-documents").rows(rows)
    ]
    assert [
        ("a.txt", "plain", "plain"),
        ("b.HTML", "html", "page"),
        ("c.jsonl#L1", "jsonl", "one"),
        ("c.jsonl#L3", "jsonl", "three"),
    ] == documents


def test_broken_documents_are_dropped_and_counted_or_fail(run: type[StageRun]) -> None:
    broken = b'{"text": "one"}\n{"text": \n[1]\n{"title": "none"}\n{"text": 3}\n' + b"[" * 99_999
    rows = [{"key": "a.bin", "content": b"\0"}, {"key": "c.jsonl", "content": broken}]
    stage = run("parse-documents")
    assert ["c.jsonl#L1"] == [row["key"] for row in stage.rows(rows)]
    assert {"dropped: binary": 1, "dropped: not a JSON object with text": 5} == stage.counters
    assert stage.table(rows[:1]) is None
    for row, message in zip(rows, ["^a.bin: binary$", "^c.jsonl#L2: not a JSON"], strict=True):
        with pytest.raises(UnreadableFileError, match=message):
            run("parse-documents", badRows="fail").rows([row])


def test_a_lone_surrogate_in_json_is_replaced(run: type[StageRun]) -> None:
    rows = [{"key": "c.jsonl", "content": b'{"text": "a\\ud800b"}'}]
    assert ["a?b"] == [row["text"] for row in run("parse-documents").rows(rows)]


def test_an_unknown_encoding_is_refused(run: type[StageRun]) -> None:
    with pytest.raises(ValueError, match="'latin-99' is not a text encoding"):
        run("parse-documents", fallbackEncoding="latin-99")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one <b>bold</b>word</p><p>two</p>", "one boldword\ntwo"),
        ("<nav>menu</nav><p>text</p><footer>end</footer><script>x()</script>", "text"),
        ("<div>side</div><main><p>text</p></main>", "text"),
        ("<article>one</article><article>two</article>", "one\ntwo"),
        ("a<br>b &amp; c<ul><li>d<li>e</ul>", "a\nb & c\nd\ne"),
        ("<p>not closed <i>at all", "not closed at all"),
        ("", ""),
        ("<script>only()</script>", ""),
        ("<main><nav>only</nav></main>", ""),
    ],
)
def test_the_main_text_of_html_is_extracted(html: str, text: str) -> None:
    assert text == extract_html_text(html)


def test_deeply_nested_html_is_parsed() -> None:
    assert "deep" == extract_html_text("<div>" * 3000 + "deep")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafe\u0301", "café"),
        ("a\u00a0 \t b \r\n\r\n\r\n\r\nc\u2028d", "a b\n\nc\nd"),
        ("soft\u00adhyphen\u200b\x07\ufeff", "softhyphen"),
        ("  \n ", ""),
        ("ﬁ", "ﬁ"),
    ],
)
def test_normal_form(text: str, expected: str | None) -> None:
    assert expected == normalise(text, "NFC")


def test_the_compatibility_form_is_optional(run: type[StageRun]) -> None:
    assert ["fi"] == run("normalise-text", form="NFKC").column("text", ["ﬁ"])


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_normalising_is_idempotent(form: Literal["NFC", "NFKC"], text: str) -> None:
    once = normalise(text, form)
    assert once == normalise(once, form)
    assert unicodedata.is_normalized(form, once)


def test_empty_texts_are_dropped_and_counted(run: type[StageRun]) -> None:
    stage = run("normalise-text")
    assert ["a"] == stage.column("text", [" a ", "\x00", None])
    assert {"dropped: empty": 2} == stage.counters


TEXTS = {
    "en": "The tide comes in twice a day and covers the rocks.",
    "de": "Das Wasser kommt zweimal am Tag und bedeckt die Felsen.",
    "fr": "La marée monte deux fois par jour et couvre les rochers.",
    "ja": "潮は一日に二回満ちて、岩を覆います。",
}


def test_languages_are_identified(run: type[StageRun]) -> None:
    rows = run("identify-language").rows([{"text": text} for text in TEXTS.values()])
    assert list(TEXTS) == [row["language"] for row in rows]
    assert all(0.5 <= row["language_probability"] <= 1 for row in rows)


def test_other_and_uncertain_languages_are_dropped(run: type[StageRun]) -> None:
    stage = run("identify-language", languages=["de", "fr"])
    assert ["de", "fr"] == stage.column("text", [*TEXTS.values(), "", "ok"], "language")
    assert {"dropped: other language": 2, "dropped: uncertain language": 2} == stage.counters
    with pytest.raises(
        ValueError, match="must be a two-letter language code such as 'en', not 'german'"
    ):
        run("identify-language", languages=["german"])


def test_only_the_start_of_a_text_is_examined(run: type[StageRun]) -> None:
    stage = run("identify-language", maxCharacters=len(TEXTS["de"]))
    assert ["de"] == stage.column("text", [TEXTS["de"] + TEXTS["en"] * 50], "language")


@pytest.mark.parametrize(
    ("values", "text", "reason"),
    [
        ({}, PROSE, None),
        ({"minWords": 200}, PROSE, "too few words"),
        ({"maxWords": 20}, PROSE, "too many words"),
        ({"minWords": 1}, "a b c d of to", "short words"),
        ({"minWords": 1}, "Donaudampfschifffahrtsgesellschaft " * 3, "long words"),
        ({}, PROSE + " # # # # # # # ...", "many symbols"),
        ({}, PROSE + " 12" * 40, "few words with letters"),
        ({"minWords": 1}, "- the tide\n- of the sea\n- and to the land", "mostly bullets"),
        ({"minWords": 1}, "The tide...\nof the sea…\nand the moon.", "many symbols"),
        ({"minWords": 1, "maxSymbolRatio": 1}, "The tide...\nand the sea…\nthat.", "many ellipses"),
        ({"minWords": 1}, "the tide of\nthe sea and\nto have that", "lines without punctuation"),
        ({"minWords": 1}, "The ending of that.\n" * 3, "repeated lines"),
        ({"minWords": 1}, "Storm closes harbour, ships wait outside.", "few stop words"),
        ({}, PROSE + " Please enable JavaScript.", "boilerplate phrase"),
        ({}, PROSE + " { x }", "curly brackets"),
        ({"curlyBrackets": True}, PROSE + " { x }", None),
        ({"phrases": ["THE LIGHTHOUSE"]}, PROSE, "boilerplate phrase"),
    ],
)
def test_text_quality(
    run: type[StageRun], values: dict[str, Any], text: str, reason: str | None
) -> None:
    stage = run("filter-text-quality", **values)
    assert ([] if reason else [text]) == stage.column("text", [text])
    assert ({f"dropped: {reason}": 1} if reason else {}) == stage.counters


def test_stop_words_follow_the_language(run: type[StageRun]) -> None:
    german = {"text": TEXTS["de"], "language": "de"}
    polish = {"text": "Latarnia stoi na wysokim brzegu i jej światło widać.", "language": "pl"}
    wrong = {"text": TEXTS["de"], "language": "en"}
    stage = run("filter-text-quality", minWords=5)
    assert [german, polish] == stage.rows([german, polish, wrong])
    assert 3 == count_stop_words("Der Hund und die Katze", "de")
    assert count_stop_words("x", "xx") is None


def test_scripts_without_blanks_are_not_judged_by_word_length(run: type[StageRun]) -> None:
    row = {"text": TEXTS["ja"] * 4, "language": "ja"}
    assert [row] == run("filter-text-quality", minWords=20).rows([row])
    assert measure_text("潮は満ちる").words == 5


@given(st.text(max_size=200))
def test_shares_are_between_zero_and_one(text: str) -> None:
    measures = measure_text(text)
    measured = measures._asdict()
    del measured["script"]
    for name, value in measured.items():
        assert 0 <= value, name
        if name.endswith("_lines") or name == "letter_words":
            assert value <= 1, name


def test_columns_are_selected_and_renamed(run: type[StageRun]) -> None:
    stage = run("select-columns", columns=["b", "a"], rename={"a": "c"})
    assert [{"b": 2, "c": 1}] == stage.rows([{"a": 1, "b": 2, "d": 3}])
    with pytest.raises(ValueError, match="no column 'b'; the columns are: a"):
        stage.rows([{"a": 1}])
