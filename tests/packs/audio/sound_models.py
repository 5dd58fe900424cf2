"""Tiny ONNX models for sounds: a listener for two languages, and a recogniser for two words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LABELS = ("low", "high")


def _save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], *more: Any) -> str:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, list(more))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return str(path)


def write_listener(folder: Path) -> tuple[str, str]:
    """Write a classifier of samples, and its labels: `high` if neighboring samples differ much.

    The logits are 0 and 1000 times the mean squared difference, minus 5.
    """
    nodes = [
        helper.make_node("Slice", ["x", "zero", "minus", "axis"], ["before"]),
        helper.make_node("Slice", ["x", "one", "end", "axis"], ["after"]),
        helper.make_node("Sub", ["after", "before"], ["step"]),
        helper.make_node("Mul", ["step", "step"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["mean", "weights"], ["scaled"]),
        helper.make_node("Add", ["scaled", "bias"], ["y"]),
    ]
    values = {
        "zero": np.array([0], "int64"),
        "one": np.array([1], "int64"),
        "minus": np.array([-1], "int64"),
        "end": np.array([1 << 40], "int64"),
        "axis": np.array([1], "int64"),
        "weights": np.array([[0, 1000]], "float32"),
        "bias": np.array([[0, -5]], "float32"),
    }
    model = _save(
        folder / "listener.onnx",
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "samples"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        *(numpy_helper.from_array(value, name) for name, value in values.items()),
    )
    labels = folder / "labels.txt"
    labels.write_text("\n".join(LABELS) + "\n")
    return model, str(labels)


def write_recogniser(folder: Path) -> str:
    """Write a NeMo CTC model of a blank and two words, which depends on the sound's features only.

    Each frame of 10 ms is one step: `ebb` if the mean feature of low frequencies is larger than
    that of high ones by 1/4, `fl` if it is as much smaller, and blank otherwise. The features are
    normalised over the clip.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\u2581ebb 0\n\u2581fl 1\n<blk> 2\n")
    (folder / "config.json").write_text(
        json.dumps(
            {"model_type": "nemo-conformer-ctc", "features_size": 80, "subsampling_factor": 1}
        )
    )
    bands = np.zeros((80, 3), "float32")
    bands[:20, 0], bands[20:, 0] = 4 / 20, -4 / 60
    bands[:, 1] = -bands[:, 0]
    nodes = [
        helper.make_node("Transpose", ["audio_signal"], ["frames"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["frames", "bands"], ["sums"]),
        helper.make_node("Add", ["sums", "bias"], ["scores"]),
        helper.make_node("LogSoftmax", ["scores"], ["logprobs"], axis=-1),
    ]
    return _save(
        folder / "model.onnx",
        nodes,
        [
            helper.make_tensor_value_info("audio_signal", TensorProto.FLOAT, ["n", 80, "t"]),
            helper.make_tensor_value_info("length", TensorProto.INT64, ["n"]),
        ],
        [helper.make_tensor_value_info("logprobs", TensorProto.FLOAT, ["n", "t", 3])],
        numpy_helper.from_array(bands, "bands"),
        numpy_helper.from_array(np.array([0, 0, 1], "float32"), "bias"),
    )
