"""Models that take a moment to make and to run: of colours, of words, of pairs of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_ARPA = r"""
\data\
ngram 1=6
ngram 2=3

\1-grams:
-1.0	<unk>
0	<s>	-0.3
-0.9	</s>
-0.7	the	-0.2
-0.8	sea	-0.2
-1.1	rises	-0.2

\2-grams:
-0.2	<s> the
-0.3	the sea
-0.4	sea rises

\end\
"""


def save(path: Path, nodes: list[Any], output: Any, sides: tuple[Any, Any], *more: Any) -> str:
    shape = ["pictures", 3, *sides]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "tiny", [given], [output], list(more))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return str(path)


def make_mean(path: Path, sides: tuple[Any, Any] = (8, 8)) -> str:
    """A model that answers with the mean red, green and blue."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["pictures", 3])
    return save(path, nodes, output, sides)


def make_words(path: Path) -> str:
    """A model that answers with the number of the strongest colour, with that plus ten, again."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("ArgMax", ["flat"], ["strongest"], axis=1, keepdims=1),
        helper.make_node("Add", ["strongest", "steps"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, ["pictures", 3])
    steps = numpy_helper.from_array(np.array([[0, 10, 0]], "int64"), "steps")
    return save(path, nodes, output, (8, 8), steps)


def make_pairs(path: Path) -> str:
    """A language model of three words and three pairs, as ARPA."""
    path.write_text(_ARPA.lstrip())
    return str(path)
