"""Stages with models: the tests make tiny models and run them with ONNX Runtime on the CPU."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper

from stage_runs import StageRun
from strandline_packs.models.model_files import ModelError, copy_model
from strandline_packs.models.onnx_sessions import Device, choose_provider
from strandline_packs.video.decode_frames import FRAMES
from tiny_models import make_mean, make_words

# Encodes, decodes, or runs models.
pytestmark = pytest.mark.slow

COLOURS = {"red": (200, 10, 20), "green": (10, 200, 20), "blue": (10, 20, 200)}
PLAIN = {"mean": [0, 0, 0], "deviation": [1, 1, 1]}


def make_clips(*clips: list[str], side: int = 8) -> pa.Table:
    frames = [
        [
            {"width": side, "height": side, "rgb": bytes(COLOURS[name]) * side * side}
            for name in clip
        ]
        for clip in clips
    ]
    return pa.table(
        {"clip": [str(at) for at in range(len(clips))], "frames": pa.array(frames, FRAMES)}
    )


@pytest.fixture(autouse=True)
def _own_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate folder for copies on the node."""
    (tmp_path / "node").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "node"))


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("side", [8, 20])
def test_clips_are_embedded_whatever_the_batches(tmp_path: Path, batch: int, side: int) -> None:
    stage = StageRun("embed-frames", model=make_mean(tmp_path / "a.onnx"), batch=batch, **PLAIN)
    rows = stage.rows(make_clips(["red"], ["red", "green", "blue"], ["blue", "blue"], side=side))
    for row, names in zip(rows, (["red"], ["red", "green", "blue"], ["blue"]), strict=True):
        total = np.sum([COLOURS[name] for name in names], axis=0)
        assert row["embedding"] == pytest.approx(total / np.linalg.norm(total), abs=0.01)


def test_levels_are_normalized_for_the_model(tmp_path: Path) -> None:
    model = make_mean(tmp_path / "a.onnx")
    (row,) = StageRun("embed-frames", model=model).rows(make_clips(["red"]))
    expected = (np.array(COLOURS["red"]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert row["embedding"] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-4)


def test_a_task_fills_its_batches_across_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = StageRun("embed-frames", model=make_mean(tmp_path / "a.onnx"), batch=4)
    sizes: list[int] = []
    session = stage.stage._model._session

    class Watched:
        def run(self, names: Any, inputs: dict[str, Any]) -> Any:
            sizes.append(len(inputs["x"]))
            return session.run(names, inputs)

    monkeypatch.setattr(stage.stage._model, "_session", Watched())
    stage.rows(make_clips(["red"] * 3, ["blue"] * 3, ["green"] * 3))
    assert [4, 4, 1] == sizes


def test_captions_are_words_up_to_the_end(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("\n".join([*COLOURS, *(f"w{number}" for number in range(3, 13))]))
    values = {"model": make_words(tmp_path / "a.onnx"), "vocabulary": str(words), "endToken": 12}
    stage = StageRun("caption-frames", **values)
    rows = stage.rows(make_clips(["red"], ["red", "green", "red"], ["blue"]))
    # the middle of three frames
    assert ["red w10 red", "green w11 green", "blue"] == [row["caption"] for row in rows]
    assert {"model", "vocabulary"} == stage.stage.digest_inputs().keys()


def test_a_model_is_copied_once_and_only_as_it_was_planned(tmp_path: Path) -> None:
    model = make_mean(tmp_path / "a.onnx")
    stage = StageRun("embed-frames", model=model).stage
    params = pickle.loads(pickle.dumps(stage.params))  # noqa: S301 - our own
    copy = copy_model(model, params.digest, ".onnx")
    assert copy.read_bytes() == Path(model).read_bytes()
    assert [copy] == [path for path in copy.parent.iterdir() if path.suffix != ".lock"]
    before = copy.stat().st_mtime_ns
    Path(model).write_bytes(b"another")
    assert before == copy_model(model, params.digest, ".onnx").stat().st_mtime_ns
    copy.unlink()
    with pytest.raises(
        ModelError, match="the model has changed during the run; run the pipeline again"
    ):
        stage.setup_on_node()
    assert {path.suffix for path in copy.parent.iterdir()} == {".lock"}


def test_the_model_is_part_of_the_fingerprint(tmp_path: Path) -> None:
    first = StageRun("embed-frames", model=make_mean(tmp_path / "a.onnx")).stage.digest_inputs()
    other = StageRun("embed-frames", model=make_mean(tmp_path / "b.onnx", (9, 9)))
    assert first != other.stage.digest_inputs()


def test_unusable_models_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone.onnx: No such file"):
        StageRun("embed-frames", model=str(tmp_path / "gone.onnx"))
    (tmp_path / "text.onnx").write_text("no model")
    with pytest.raises(ModelError, match=r"text.onnx: the model can't be loaded"):
        StageRun("embed-frames", model=str(tmp_path / "text.onnx"))
    free = make_mean(tmp_path / "free.onnx", ("height", "width"))
    with pytest.raises(
        ModelError, match=r"free.onnx: it takes pictures of any size; set their size"
    ):
        StageRun("embed-frames", model=free)
    StageRun("embed-frames", model=free, size=[16, 8]).rows(make_clips(["red"]))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "flat",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [output],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "flat.onnx",
    )
    with pytest.raises(
        ModelError, match=r"must take pictures × 3 × height × width, but it takes x"
    ):
        StageRun("embed-frames", model=str(tmp_path / "flat.onnx"))
    with pytest.raises(ModelError, match="CUDA is requested, but ONNX Runtime has no CUDA support"):
        StageRun("embed-frames", model=make_mean(tmp_path / "a.onnx"), device="cuda")


BOTH = ["CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("device", "available", "given", "expected"),
    [
        (Device.AUTO, BOTH, "0", "CUDAExecutionProvider"),
        (Device.AUTO, BOTH, "", "CPUExecutionProvider"),
        (Device.AUTO, BOTH, "-1", "CPUExecutionProvider"),
        (Device.AUTO, BOTH[1:], "0", "CPUExecutionProvider"),
        (Device.CPU, BOTH, "0", "CPUExecutionProvider"),
        (Device.CUDA, BOTH, "", "CUDAExecutionProvider"),
    ],
)
def test_the_device_is_the_one_assigned_to_the_worker(
    device: Device, available: list[str], given: str, expected: str
) -> None:
    assert expected == choose_provider(device, available, {"CUDA_VISIBLE_DEVICES": given})
