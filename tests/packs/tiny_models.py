"""Models that are quick to make and to run: of colors, words, and pairs of words."""

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
    """Write a model that returns the mean red, green, and blue."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["pictures", 3])
    return save(path, nodes, output, sides)


def make_words(path: Path) -> str:
    """Write a model that returns the strongest color's number, plus ten, and again unchanged."""
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
    """Write a language model of three words and three pairs in ARPA format."""
    path.write_text(_ARPA.lstrip())
    return str(path)


def make_classifier(path: Path, labels: list[Any], shares: dict[str, float], rank: int = 2) -> str:
    """Write a text model with the probability of the first of two labels, as skl2onnx does.

    Without labels, the model only returns probabilities, as with zipmap disabled.
    """
    ml, kind = "ai.onnx.ml", "strings" if isinstance([*labels, ""][0], str) else "int64s"
    nodes = [
        helper.make_node("Reshape", ["text", "column"], ["texts"]),
        helper.make_node(
            "LabelEncoder", ["texts"], ["first"], domain=ml,
            keys_strings=list(shares), values_floats=list(shares.values()), default_float=0.5,
        ),
        helper.make_node("Sub", ["all", "first"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["both"], axis=1),
    ]  # fmt: skip
    output = helper.make_tensor_value_info("both", TensorProto.FLOAT, ["texts", 2])
    if labels:
        named: dict[str, Any] = {f"classlabels_{kind}": labels}
        nodes.append(helper.make_node("ZipMap", ["both"], ["shares"], domain=ml, **named))
        key = TensorProto.STRING if kind == "strings" else TensorProto.INT64
        share = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        mapped = helper.make_map_type_proto(key, share)
        output = helper.make_value_info("shares", helper.make_sequence_type_proto(mapped))
    shape = [None, 1][:rank]
    given = helper.make_tensor_value_info("text", TensorProto.STRING, shape)
    constants = [
        numpy_helper.from_array(np.array([-1, 1], "int64"), "column"),
        numpy_helper.from_array(np.array([[1]], "float32"), "all"),
    ]
    graph = helper.make_graph(nodes, "tiny", [given], [output], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ml, 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def make_bright_faces(path: Path) -> str:
    """Write a stand-in for YuNet: faces are bright squares of 32 pixels in a grid."""
    values = {"ones": np.array([1, -1, 1]), "white": np.float32(255), "zero": np.float32(0)}
    values |= {"bbox": np.array([0.5, 0.5, 0, 0], "float32"), "kps": np.zeros(10, "float32")}
    nodes, outputs, widths = [], [], {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
    for side in (8, 16, 32):
        grid: dict[str, Any] = {"kernel_shape": [side] * 2, "strides": [side] * 2}
        pooled, gray, flat, none = (f"{name}_{side}" for name in ("pooled", "gray", "flat", "none"))
        nodes += [
            helper.make_node("AveragePool", ["x"], [pooled], **grid),
            helper.make_node("ReduceMean", [pooled], [gray], axes=[1]),
            helper.make_node("Reshape", [gray, "ones"], [flat]),
            helper.make_node("Mul", [flat, "zero"], [none]),
        ]
        given = flat if side == 32 else none
        nodes += [
            helper.make_node("Div", [given, "white"], [f"{k}_{side}"]) for k in ("cls", "obj")
        ]
        nodes += [helper.make_node("Add", [none, k], [f"{k}_{side}"]) for k in ("bbox", "kps")]
        outputs += [
            helper.make_tensor_value_info(f"{name}_{side}", TensorProto.FLOAT, [1, "n", width])
            for name, width in widths.items()
        ]
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "height", "width"])
    constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in values.items()]
    graph = helper.make_graph(nodes, "tiny", [picture], outputs, constants)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return str(path)


def make_red_faces(path: Path) -> str:
    """Write a stand-in for CenterFace: faces are red or white boxes of 32 × 24 pixels.

    A cell of 4 pixels is a face if it is at the center of such a box. Areas are a pixel to the left
    and a pixel down, so that tests see offsets. Sides must be multiples of 32, as for CenterFace.
    """
    red = np.zeros((1, 3, 24, 32), "float32")
    red[0, 0] = 1 / (255 * 24 * 32)
    # The names of CenterFace: sizes, offsets, and landmarks. "537" are the scores.
    columns: dict[str, Any] = {"538": np.log([6, 8]), "539": [0.25, -0.25], "540": np.zeros(10)}
    values = {f"x{name}": np.reshape(each, (1, -1, 1, 1)) for name, each in columns.items()}
    values |= {"red": red, "zero": np.zeros(1)}
    window: dict[str, Any] = {"strides": [4, 4], "pads": [10, 14, 10, 14]}
    nodes = [
        helper.make_node("Conv", ["x", "red"], ["found"], **window),
        helper.make_node("SpaceToDepth", ["found"], ["blocks"], blocksize=8),
        helper.make_node("DepthToSpace", ["blocks"], ["537"], blocksize=8),
        helper.make_node("Mul", ["537", "zero"], ["none"]),
        *(helper.make_node("Add", ["none", f"x{name}"], [name]) for name in columns),
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [10, width, 8, 8])
        for name, width in {"537": 1, "538": 2, "539": 2, "540": 10}.items()
    ]
    picture = helper.make_tensor_value_info("x", TensorProto.FLOAT, [10, 3, 32, 32])
    constants = [
        numpy_helper.from_array(np.asarray(each, "float32"), name) for name, each in values.items()
    ]
    graph = helper.make_graph(nodes, "tiny", [picture], outputs, constants)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return str(path)
