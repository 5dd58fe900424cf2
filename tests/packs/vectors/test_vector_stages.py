"""The stages for vectors: columns, samples, centers, and bad inputs."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_networks import write_network, write_tokenizer
from onnx import TensorProto, helper, numpy_helper
from pydantic import ValidationError

from command_server import execute_interpreter
from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline.stages import EmbedText
from strandline_packs.models.model_files import ModelError
from strandline_packs.vectors.centroids import (
    assign_rows,
    build_table,
    draw_sample,
    fit_centroids,
    read_centroids,
)
from strandline_packs.vectors.vector_columns import VectorError, build_column, read_vectors, scale
from tiny_models import make_mean

TEXTS = ["The ferry sails at noon.", "At noon the ferry sails.", "Rye bread on Tuesdays.", "", "  "]


def test_texts_become_vectors_of_one_size_and_length() -> None:
    run = StageRun("embed-text", batch=2)
    table = run.table(pa.table({"text": TEXTS}))
    assert table is not None
    assert table["vector"].type == pa.list_(pa.float16(), 256)
    vectors = read_vectors(table, "vector").astype(float)
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0, 0], atol=1e-3)
    assert vectors[0] @ vectors[1] > 0.8
    assert vectors[0] @ vectors[2] < 0.3
    assert run.counters["texts without words"] == 2


def test_loading_a_model_changes_no_settings_of_the_process() -> None:
    script = (
        "import logging, os\n"
        "from strandline_packs.vectors.embedding.encoders import open_wordllama\n"
        "before = dict(os.environ), logging.getLogger().level, logging.getLogger().handlers[:]\n"
        "open_wordllama()\n"
        "after = dict(os.environ), logging.getLogger().level, logging.getLogger().handlers[:]\n"
        "assert before == after\n"
    )
    done = execute_interpreter([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_text_has_the_same_vector_in_any_batch() -> None:
    texts = [f"{text} {at}" for at in range(20) for text in TEXTS]
    tables = [StageRun("embed-text", batch=batch).table(pa.table({"text": texts}))
              for batch in (1, 7, 64)]  # fmt: skip
    first, *others = [read_vectors(table, "vector") for table in tables if table is not None]
    for other in others:
        assert np.allclose(first, other, atol=1e-3)


def test_a_model2vec_folder_is_used(tmp_path: Path) -> None:
    from model2vec import StaticModel  # noqa: PLC0415 - loads numpy and tokenizers
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415 - as above

    words = {"[UNK]": 0, "tide": 1, "water": 2}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106 - a word
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    StaticModel(np.eye(3, dtype=np.float32), tokenizer).save_pretrained(str(tmp_path / "m"))
    run = StageRun("embed-text", engine="model2vec", model=str(tmp_path / "m"))
    table = run.table(pa.table({"text": ["tide", "water water", "tide water", "unknown"]}))
    assert table is not None
    half = 0.5**0.5
    means = [[0, 1, 0], [0, 0, 1], [0, half, half], [0, 0, 0]]
    assert np.allclose(read_vectors(table, "vector"), means, atol=1e-3)
    assert run.counters["texts without words"] == 1


def write_token_vectors(folder: Path, words: list[str]) -> dict[str, Any]:
    """Write a network with a vector for each token: its number on the first axis, and 1."""
    numbers = np.array([[number, 1] for number in range(4 + len(words))], "float32")
    shape = ["texts", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape)
              for name in ("input_ids", "attention_mask")]  # fmt: skip
    output = helper.make_tensor_value_info("states", TensorProto.FLOAT, [*shape, 2])
    nodes = [helper.make_node("Gather", ["numbers", "input_ids"], ["states"])]
    stored = [numpy_helper.from_array(numbers, "numbers")]
    graph = helper.make_graph(nodes, "tokens", inputs, [output], stored)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    tokenizer = write_tokenizer(folder / "tokenizer.json", words, around=False)
    return {"engine": "onnx", "model": str(folder / "m.onnx"), "tokenizer": str(tokenizer)}


def test_a_sentence_transformer_gives_the_mean_of_its_tokens(tmp_path: Path) -> None:
    params = write_token_vectors(tmp_path, ["tide", "water"])
    table = StageRun("embed-text", **params).table(
        pa.table({"text": ["tide", "tide water water", ""]})
    )
    assert table is not None
    means = np.array([[4, 1], [14 / 3, 1]])  # padding does not count
    means = means / np.linalg.norm(means, axis=1)[:, None]
    result = read_vectors(table, "vector")
    assert np.allclose(result[:2], means, atol=1e-3)
    assert result[2].tolist() == [0, 0]


def test_a_transformer_with_a_vector_of_the_text_is_used(tmp_path: Path) -> None:
    write_network(tmp_path, {"tide": [3.0, 4.0], "water": [0.0, 1.0]}, ("a", "b"))
    params = {"model": f"{tmp_path}/model.onnx", "tokenizer": f"{tmp_path}/tokenizer.json"}
    run = StageRun("embed-text", engine="onnx", **params)
    table = run.table(pa.table({"text": ["tide", "water"]}))
    assert table is not None
    assert np.allclose(read_vectors(table, "vector"), np.array([[0.6, 0.8], [0, 1]]), atol=1e-3)


def test_pictures_become_vectors(tmp_path: Path) -> None:
    model = make_mean(tmp_path / "mean.onnx")
    run = StageRun("embed-images", model=model, mean=[0, 0, 0], deviation=[1, 1, 1])
    pictures = [{"width": 8, "height": 8, "rgb": bytes(color) * 64}
                for color in ((255, 0, 0), (0, 30, 40))]  # fmt: skip
    table = run.table(pa.table({"picture": pictures}))
    assert table is not None
    assert np.allclose(
        read_vectors(table, "vector"), np.array([[1, 0, 0], [0, 0.6, 0.8]]), atol=1e-3
    )


PICTURES = [
    {"width": 8, "height": 8, "rgb": bytes(color) * 64} for color in ((255, 0, 0), (0, 51, 102))
]
PLAIN = {"mean": [0, 0, 0], "deviation": [1, 1, 1]}


def test_scores_of_pictures_become_columns(tmp_path: Path) -> None:
    params = {"model": make_mean(tmp_path / "m.onnx"), "outputs": ["r", "g", "b"], **PLAIN}
    table = pa.table({"key": ["x", "y"], "picture": PICTURES})
    rows = StageRun("score-images", **params).rows(table)
    assert [[row[name] for name in "rgb"] for row in rows] == [
        pytest.approx([1, 0, 0]),
        pytest.approx([0, 0.2, 0.4]),
    ]
    likely = StageRun("score-images", activation="softmax", **params).rows(table)
    assert likely[0]["r"] == pytest.approx(np.e / (np.e + 2))
    assert sum(likely[1][name] for name in "rgb") == pytest.approx(1)
    squeezed = StageRun("score-images", activation="sigmoid", **params).rows(table)
    assert squeezed[0]["g"] == pytest.approx(0.5)
    with pytest.raises(ModelError, match="has 3 outputs for a picture, and `outputs` names 1"):
        StageRun("score-images", **params | {"outputs": ["a"]}).rows(table)
    with pytest.raises(ValidationError, match="different names"):
        StageRun("score-images", **params | {"outputs": ["a", "a"]})


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=6))
def test_law_the_cosine_of_hashes_counts_equal_bits(values: list[int]) -> None:
    table = pa.table({"hash": [f"{value:016x}" for value in values]})
    result = StageRun("embed-hashes").table(table)
    assert result is not None
    units = scale(read_vectors(result, "vector"))
    for at, one in enumerate(values):
        for other_at, other in enumerate(values):
            bits = (one ^ other).bit_count()
            assert units[at] @ units[other_at] == pytest.approx(1 - 2 * bits / 64)


@pytest.mark.parametrize("hashes", [["ab", "abcd"], ["xy"], ["abc"]])
def test_values_that_are_no_hashes_are_named(hashes: list[str]) -> None:
    with pytest.raises(VectorError, match="hash"):
        StageRun("embed-hashes").rows(pa.table({"hash": hashes}))


def test_vectors_of_two_columns_are_compared() -> None:
    table = pa.table({"vector": [[3.0, 4.0], [0.0, 0.0]], "text_vector": [[6.0, 8.0], [1.0, 0.0]]})
    rows = StageRun("compare-vectors").rows(table)
    assert [row["cosine"] for row in rows] == pytest.approx([1, 0])
    odd = table.set_column(1, "text_vector", pa.array([[1.0], [1.0]]))
    with pytest.raises(VectorError, match="vector and text_vector have 2 and 1 values"):
        StageRun("compare-vectors").rows(odd)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"engine": "onnx"}, "`model` is required"),
        ({"model": "x"}, "only with these"),
        ({"engine": "onnx", "model": "x"}, "`tokenizer` is required"),
        ({"engine": "bert"}, "wordllama"),
    ],
)
def test_impossible_models_are_named_during_planning(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        EmbedText.Params.model_validate(values)


@given(st.integers(0, 9_999), st.integers(1, 30))
def test_law_the_sample_does_not_depend_on_the_order_of_rows(seed: int, most: int) -> None:
    chance = np.random.default_rng(seed)
    # Some keys are equal.
    rows = [(f"k{at // 2}", chance.normal(size=4).astype(np.float32)) for at in range(40)]
    shuffled = [rows[at] for at in chance.permutation(40)]
    assert np.array_equal(draw_sample(rows, most), draw_sample(shuffled, most))
    assert len(draw_sample(rows, most)) == min(most, 40)


def test_memory_does_not_grow_with_the_number_of_vectors() -> None:
    peaks = []
    for count in (2_000, 20_000):
        rows = ((f"k{at}", np.full(64, at, np.float32)) for at in range(count))
        tracemalloc.start()
        draw_sample(rows, 500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_centers_are_the_directions_of_the_groups() -> None:
    chance = np.random.default_rng(1)
    groups = np.eye(6)[:4]
    sample = np.repeat(groups, 50, axis=0) + chance.normal(scale=0.05, size=(200, 6))
    centers = fit_centroids(sample.astype(np.float32), 4, seed=0)
    assert np.array_equal(centers, fit_centroids(sample.astype(np.float32), 4, seed=0))
    nearest, closeness = assign_rows(sample.astype(np.float32), centers)
    assert len({tuple(nearest[at : at + 50]) for at in range(0, 200, 50)}) == 4
    assert closeness.min() > 0.9


def test_a_small_sample_has_as_many_centers_as_vectors() -> None:
    assert fit_centroids(np.eye(3, dtype=np.float32), 1000, seed=0).shape == (3, 3)


def write_vectors(path: Path, keys: list[str], vectors: Any) -> dict[str, Any]:
    pq.write_table(pa.table({"key": keys, "vector": build_column(np.asarray(vectors))}), path)
    return {"key": path.name, "path": str(path)}


@pytest.mark.parametrize("rows", [1, 10_000])
def test_the_centers_of_all_files_are_one_table(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline_packs.vectors.centroids._ROWS", rows)
    files = [
        write_vectors(tmp_path / "a.parquet", ["a", "b"], [[1, 0], [1, 0.1]]),
        write_vectors(tmp_path / "b.parquet", ["c", "d"], [[0, 1], [0.1, 1]]),
    ]
    run = StageRun("fit-clusters", clusters=2)
    (table,) = run.tables(files)
    assert table.num_rows == 2
    assert run.counters["vectors in the sample"] == 4
    pq.write_table(table, tmp_path / "centers.parquet")
    assigned = StageRun("assign-cluster", path=str(tmp_path / "centers.parquet"))
    answers = assigned.rows(pa.table({"vector": build_column(np.array([[1, 0], [0, 1], [2, 0]]))}))
    assert answers[0]["cluster"] == answers[2]["cluster"] != answers[1]["cluster"]
    assert answers[0]["bucket"] == answers[2]["bucket"] != answers[1]["bucket"]
    assert answers[0]["closeness"] == pytest.approx(1, abs=0.01)


def test_centers_that_are_missing_or_change_are_named(tmp_path: Path) -> None:
    path = tmp_path / "centers.parquet"
    with pytest.raises(UnreadableFileError, match="run the pipeline with `fit-clusters`"):
        StageRun("assign-cluster", path=str(tmp_path / "none" / "*.parquet"))
    pq.write_table(build_table(np.eye(2, dtype=np.float32)), path)
    run = StageRun("assign-cluster", path=str(path))
    pq.write_table(build_table(2 * np.eye(2, dtype=np.float32)[::-1]), path)
    with pytest.raises(ChangedListError, match="changed during the run"):
        run.stage.setup()
    assert read_centroids(str(path)).shape == (2, 2)


def test_rows_of_several_clusters_are_compared_within_each() -> None:
    vectors = build_column(np.array([[1, 0], [1, 0.01], [1, 0], [0, 1]]))
    clusters = pa.array([0, 0, 1, 1], pa.int32())
    table = pa.table({"key": ["a", "b", "c", "d"], "vector": vectors, "cluster": clusters,
                      "closeness": [0.9, 0.8, 0.9, 0.7]})  # fmt: skip
    run = StageRun("list-similar", threshold=0.9)
    (row,) = run.rows(table)
    assert (row["key"], row["stays"]) == ("a", "b")
    assert row["cosine"] == pytest.approx(1, abs=0.001)
    assert run.counters["similar rows"] == 1
    empty = run.table(table.slice(0, 0))
    assert empty is not None
    assert empty.num_rows == 0
    texts = table.append_column("text", pa.array(["A", "B", "C", "D"]))
    (shown,) = StageRun("list-similar", threshold=0.9, show=["text"]).rows(texts)
    assert ("A", "B") == (shown["text"], shown["stays_text"])


@pytest.mark.parametrize("show", [["key"], ["text", "text"], ["x", "stays_x"]])
def test_shown_columns_have_different_names(show: list[str]) -> None:
    with pytest.raises(ValidationError, match="two columns"):
        StageRun("list-similar", show=show)


BAD = [
    (pa.array([[1.0], [1.0, 2.0]]), "same size"),
    (pa.array([[1.0], None]), "same size"),
    (pa.array([[], []], pa.list_(pa.float32())), "same size"),
    (pa.array([[1.0], [None]]), "null, NaN, or infinite"),
    (pa.array([[1.0], [float("nan")]]), "null, NaN, or infinite"),
    (pa.array(["a", "b"]), "must have lists of floats, and it has string"),
    (pa.array([["a"], ["b"]]), "must have lists of floats"),
]


@pytest.mark.parametrize(("column", "words"), BAD, ids=lambda each: str(each)[:20])
def test_columns_without_vectors_are_named(column: pa.Array, words: str) -> None:
    with pytest.raises(VectorError, match=words):
        read_vectors(pa.table({"vector": column}), "vector")


def test_vectors_of_models_behind_servers_are_accepted() -> None:
    kinds = [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 2)]
    for kind in kinds:
        numbers = np.array([1, 2], np.float16) if pa.types.is_float16(kind.value_type) else [1, 2]
        table = pa.table({"v": pa.array([numbers], kind)})
        assert read_vectors(table, "v").tolist() == [[1, 2]]
    with pytest.raises(MissingColumnError):
        read_vectors(pa.table({"v": [1]}), "vector")


def test_different_sizes_of_vectors_and_centers_are_named() -> None:
    with pytest.raises(VectorError, match="vectors have 3 values, and the centers 2"):
        assign_rows(np.eye(3, dtype=np.float32), np.eye(2, dtype=np.float32))
    rows = [("a", np.ones(2, np.float32)), ("b", np.ones(3, np.float32))]
    with pytest.raises(VectorError, match="b: its vector has 3 values and others have 2"):
        draw_sample(rows, 5)
    with pytest.raises(VectorError, match="no vectors to cluster"):
        draw_sample([], 5)
