"""Writes two tiny token networks, in folders laid out as `optimum-cli export onnx` writes them.

python pipelines/examples/make_networks.py FOLDER

`FOLDER/educational` computes a score for a text, as FineWeb-Edu's classifier does; `FOLDER/quality`
chooses between two labels. Both add fixed values of words, whereas a real network has many layers.
The package `onnx` is needed to write the networks, but not to run them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

PAD, UNKNOWN, START, END = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
POSITIONS = 512
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Numbers that would be seen in any answer, were what is filled up not masked.
OF_PADDING = 1000.0

EDUCATIONAL = {"learned": 1.5, "knows": 1.0, "counted": 1.0, "sea": 0.75, "wind": 0.5, "the": 0.125}
QUALITY = {"the": 0.25, "advertisement": -2.0, "click": -2.0, "and": 0.25}


def write_network(
    folder: Path,
    words: Mapping[str, Sequence[float]],
    labels: Sequence[str] = ("LABEL_0",),
    inputs: Sequence[str] = INPUTS,
    positions: int = POSITIONS,
) -> Path:
    """Write a network, its tokenizer, and its configuration. Return the folder.

    The output is the sum of the words' numbers. For tokens of the second type, each number is
    larger by 1.

    Args:
        words: for each word, a number per label.
        positions: maximum number of tokens in an input.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json", list(words))
    config = {"id2label": dict(enumerate(labels)), "max_position_embeddings": positions}
    (folder / "config.json").write_text(json.dumps(config))
    none = [0.0] * len(labels)
    rows = [[OF_PADDING] * len(labels), none, none, none, *words.values()]
    shape = ["batch_size", "sequence_length"]
    given = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in inputs]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", len(labels)])
    constants = {
        "words": np.array(rows, "float32"),
        "positions": np.ones((positions, 1), "float32"),
        "zero": np.array(0, "int64"),
        "one": np.array(1, "int64"),
        "first_axis": np.array([1], "int64"),
        "last_axis": np.array([2], "int64"),
    }
    graph = helper.make_graph(
        _list_nodes(has_kinds=INPUTS[2] in inputs),
        "words",
        given,
        [logits],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    return folder


def write_tokenizer(path: Path, words: Sequence[str], *, around: bool = True) -> Path:
    """Write a tokenizer that knows words in small letters; `around`: it marks where a text ends."""
    numbers = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if around:
        ends = [(name, numbers[name]) for name in (START, END)]
        tokenizer.post_processor = processors.TemplateProcessing(f"{START} $A {END}", None, ends)
    path.write_text(tokenizer.to_str())
    return path


def _list_nodes(*, has_kinds: bool) -> list[onnx.NodeProto]:
    """List the steps from tokens to logits: a sum over the tokens that the mask selects."""
    make = helper.make_node
    nodes = [
        make("Gather", ["words", "input_ids"], ["of_words"]),
        make("Shape", ["input_ids"], ["shape"]),
        make("Gather", ["shape", "one"], ["length"]),
        make("Range", ["zero", "length", "one"], ["range"]),
        make("Gather", ["positions", "range"], ["of_positions"]),
        make("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        make("Unsqueeze", ["mask", "last_axis"], ["wide_mask"]),
        make("Mul", ["wide_mask", "of_positions"], ["weights"]),
    ]
    if has_kinds:
        nodes += [
            make("Cast", ["token_type_ids"], ["kinds"], to=TensorProto.FLOAT),
            make("Unsqueeze", ["kinds", "last_axis"], ["wide_kinds"]),
            make("Add", ["of_words", "wide_kinds"], ["of_tokens"]),
        ]
    return [
        *nodes,
        make("Mul", ["of_tokens" if has_kinds else "of_words", "weights"], ["weighed"]),
        make("ReduceSum", ["weighed", "first_axis"], ["logits"], keepdims=0),
    ]


def write_both(folder: Path) -> None:
    """Write the two networks of the examples into separate folders."""
    write_network(folder / "educational", {word: [size] for word, size in EDUCATIONAL.items()})
    quality = {word: [0.0, size] for word, size in QUALITY.items()}
    write_network(folder / "quality", quality, labels=["low", "high"])


def main() -> None:
    """Write the networks into the folder that the command line specifies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write_both(parser.parse_args().folder)


if __name__ == "__main__":
    main()
