"""Sentence runs that the corpus already has are removed from texts, as in C4."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_passes import list_duplicates
from stage_runs import Rows, StageRun
from strandline.plan.packages import list_missing
from strandline_packs.text.filters.splitting import RuleSplitter, cut_sentences

NOTICE = "All rights reserved. No part may be copied. Ask the keeper first."
ANY = {"minSentences": 0, "minWords": 0}


def number_texts(texts: Iterable[str]) -> Rows:
    return [{"key": f"d{at:03d}", "text": text} for at, text in enumerate(texts)]


def drop_runs(folder: Path, rows: Rows, count: int = 2, span: int = 3, **values: Any) -> StageRun:
    """Return the last stage after all passes over some rows."""
    path = list_duplicates(folder, StageRun("digest-sentences", span=span), rows, count)
    return StageRun("drop-listed-sentences", path=path, span=span, **values)


def drop_naively(rows: Rows, span: int) -> dict[str, str]:
    """Return the rest of each text, computed in key order with all runs in memory."""
    seen: set[str] = set()
    left = {}
    for row in sorted(rows, key=lambda row: str(row["key"])):
        sentences = cut_sentences(RuleSplitter(), row["text"])
        gone: set[int] = set()
        for at in range(len(sentences) - span + 1):
            run = " ".join("".join(sentences[at : at + span]).split())
            if run and run in seen:
                gone.update(range(at, at + span))
            seen.add(run)
        kept = "".join(each for at, each in enumerate(sentences) if at not in gone)
        if kept.strip() or not gone:
            left[row["key"]] = kept.strip() if gone else row["text"]
    return left


SENTENCES = st.lists(st.sampled_from(["One. ", "Two? ", "Three.\n", "Four. "]), max_size=14)


@given(
    st.lists(SENTENCES.map("".join), max_size=5).flatmap(
        lambda texts: st.permutations(number_texts(texts))
    ),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_law_the_first_of_equal_runs_by_key_stays_in_any_order_and_partition(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, span: int, count: int
) -> None:
    folder = tmp_path_factory.mktemp("passes")
    if rows:
        found = drop_runs(folder, rows, count, span, **ANY).rows(rows)
        assert drop_naively(rows, span) == {row["key"]: row["text"] for row in found}


def test_repeated_runs_are_removed_and_the_rest_stays(tmp_path: Path) -> None:
    rows = number_texts([
        f"The tide turned. {NOTICE}",
        f"Nobody came. {NOTICE.replace(' No', '  No')}\nThe lamp went out. ",
        NOTICE,
        "All rights reserved. No part may be copied.",
    ])  # fmt: skip
    stage = drop_runs(tmp_path, rows, **ANY)
    left = ["Nobody came. The lamp went out."]
    expected = [rows[0]["text"], *left, rows[3]["text"]]
    assert expected == [row["text"] for row in stage.rows(rows)]
    assert {"sentences dropped": 6, "dropped: nothing left": 1} == stage.counters


def test_a_text_that_repeats_itself_keeps_the_first_run(tmp_path: Path) -> None:
    # Use more than ten sentences, because numbers sorted as text have another order.
    others = " ".join(f"Sentence {chr(97 + at)} is here." for at in range(9))
    rows = number_texts([f"{others} {NOTICE} And now again. {NOTICE}"])
    (row,) = drop_runs(tmp_path, rows, **ANY).rows(rows)
    assert f"{others} {NOTICE} And now again." == row["text"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"minSentences": 2, "minWords": 0}, "too few sentences left"),
        ({"minSentences": 1, "minWords": 4}, "too few words left"),
        ({"minSentences": 1, "minWords": 3}, None),
    ],
)
def test_texts_with_too_little_left_are_dropped(
    tmp_path: Path, values: dict[str, int], reason: str | None
) -> None:
    rows = number_texts([NOTICE, f"{NOTICE} Nobody came."])
    stage = drop_runs(tmp_path, rows, **values)
    # A text that loses nothing may be short.
    expected = [NOTICE] if reason else [NOTICE, "Nobody came."]
    assert expected == [row["text"] for row in stage.rows(rows)]
    assert (1 if reason else None) == stage.counters.get(f"dropped: {reason}")


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        ("none", {"upper", "blanks"}),
        ("whitespace", {"upper"}),
        ("case", set()),
    ],
)
def test_ignored_differences_are_a_parameter(
    tmp_path: Path, normalise: str, expected: set[str]
) -> None:
    texts = {"a": f"{NOTICE}\n", "again": NOTICE, "upper": NOTICE.upper(),
             "blanks": NOTICE.replace(" part", "  part")}  # fmt: skip
    rows = [{"key": key, "text": text} for key, text in texts.items()]
    first = StageRun("digest-sentences", normalise=normalise)
    path = list_duplicates(tmp_path, first, rows, 1)
    kept = [row["key"] for row in StageRun("drop-listed-sentences", path=path).rows(rows)]
    assert {"a", *expected} == set(kept)


@pytest.mark.slow
@pytest.mark.skipif(bool(list_missing(["datatrove"])), reason="make rivals")
def test_the_rest_equals_that_of_datatrove(tmp_path: Path) -> None:
    draw = random.Random(7)
    pool = [f"Line {at} of the log says so{'!' * (at % 3)}." for at in range(400)]
    texts = [
        " ".join(
            sentence
            for start in (draw.randrange(390) for _ in range(draw.randrange(1, 7)))
            for sentence in pool[start : start + draw.randrange(1, 9)]
        )
        for _ in range(150)
    ]
    rows = number_texts([*texts, f"{texts[0]}\n{NOTICE} {NOTICE}", "", "One."])
    theirs = run_datatrove(tmp_path / "theirs", [row["text"] for row in rows])
    stage = drop_runs(tmp_path, rows)
    assert theirs == [row["text"] for row in stage.rows(rows) if row["text"]]
    reasons = ("nothing", "too few sentences", "too few words")
    assert {f"dropped: {reason} left" for reason in reasons} < stage.counters.keys()
    assert len(theirs) > len(set(theirs) & {row["text"] for row in rows}) > 0


def run_datatrove(folder: Path, texts: list[str]) -> list[str]:
    """Return the rest of texts after datatrove's stage, configured to compare and split as ours."""
    from datatrove.data import Document  # noqa: PLC0415 - may not be there
    from datatrove.pipeline.dedup import sentence_dedup as theirs  # noqa: PLC0415
    from datatrove.utils.hashing import HashConfig  # noqa: PLC0415
    from datatrove.utils.text import TextNormConfig  # noqa: PLC0415
    from datatrove.utils.word_tokenizers import WordTokenizer  # noqa: PLC0415

    class Injected(WordTokenizer):  # type: ignore[misc]  # it comes without types
        """Splits texts for datatrove with our splitter."""

        def word_tokenize(self, text: str) -> list[str]:
            return RuleSplitter().split_words(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return [text[start:end] for start, end in self.span_tokenize(text)]

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return list(RuleSplitter().find_sentences(text))

    names = ("lowercase", "remove_punctuation", "norm_unicode_diacritics", "norm_numbers",
             "norm_weekdays", "norm_monthnames")  # fmt: skip
    config = theirs.SentDedupConfig(
        norm_config=TextNormConfig(**dict.fromkeys(names, False)),
        hash_config=HashConfig(hash_fc="sha1"),  # datatrove's other hash no longer accepts text
    )
    signatures, found = str(folder / "signatures"), str(folder / "found")

    def list_documents() -> list[Any]:
        return [Document(text=text, id=str(at)) for at, text in enumerate(texts)]

    words: Any = Injected()
    signing = theirs.SentenceDedupSignature(signatures, config=config, language=words)
    signing.run(list_documents())
    theirs.SentenceFindDedups(signatures, found, config=config).run()
    dropping = theirs.SentenceDedupFilter(found, config=config, language=words)
    return [document.text.rstrip() for document in dropping.run(list_documents())]
