"""Runs image models in ONNX files, and provides the base class of their stages.

The module handles pictures and arrays. It must not depend on the purpose of a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline_packs.images.pictures import Picture
from strandline_packs.models.model_files import ModelError, ModelFileParams, copy_model
from strandline_packs.models.onnx_sessions import (
    SessionParams,
    describe_tensors,
    open_session,
)

# mean and deviation of red, green, and blue
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_WHITE = 255
_AXES = 4  # batch, color channel, height, width


class ModelParams(SessionParams, ModelFileParams):
    """Configures the model and its input."""

    model: str = Field(
        min_length=1,
        description="ONNX file at a path or fsspec URL; its only input is pictures × 3 × height × "
        "width of 32-bit floats. The file's content is part of the fingerprint.",
    )
    batch: int = Field(
        default=16, ge=1, description="Maximum number of pictures per call, across a task's clips."
    )
    size: tuple[int, int] | None = Field(
        default=None,
        description="Width and height of pictures, if the model accepts any size.",
    )
    mean: tuple[float, float, float] = Field(
        default=_IMAGENET[0],
        description="Values that are subtracted from red, green and blue, which range from 0 to 1.",
    )
    deviation: tuple[float, float, float] = Field(
        default=_IMAGENET[1],
        description="Values by which red, green and blue are divided after subtracting `mean`.",
    )


class ModelStage(Stage):
    """Base class of stages with a model. Nodes copy the model once; workers warm up the model."""

    Params = ModelParams
    params: ModelParams
    packages: ClassVar[tuple[str, ...]] = ("av", "numpy", "onnxruntime")
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"device", "batch", "threads"})

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model."""
        return self.params.digests

    def setup_on_node(self) -> None:
        """Copy the model to the node's disk, from which the node's workers load the model."""
        copy_model(self.params.model, self.params.digest, ".onnx")

    def setup(self) -> None:
        """Load the model, and run it once, because the first call is the slowest."""
        path = copy_model(self.params.model, self.params.digest, ".onnx")
        self._model = OnnxModel(self.params, path)
        self._model.warm_up()


class OnnxModel:
    """A loaded model for pictures.

    Raises:
        ModelError: the model's input is not a batch of pictures, or the device is unavailable.
    """

    def __init__(self, params: ModelParams, path: Path) -> None:
        self._session = open_session(path, params.model, params)
        self._params = params
        self._input, self._size = self._read_input()

    def _read_input(self) -> tuple[str, tuple[int, int]]:
        inputs, params = self._session.get_inputs(), self._params
        shape = inputs[0].shape
        if len(inputs) != 1 or len(shape) != _AXES or inputs[0].type != "tensor(float)":
            given = describe_tensors(inputs)
            msg = (
                f"{params.model}: the model must take pictures × 3 × height × width, but it takes "
                f"{given}"
            )
            raise ModelError(msg)
        sides = (shape[3], shape[2])
        # ONNX describes a variable dimension by a name or None.
        if all(isinstance(side, int) for side in sides):
            return inputs[0].name, sides
        if params.size is None:
            msg = f"{params.model}: it takes pictures of any size; set their size in `size`"
            raise ModelError(msg)
        return inputs[0].name, params.size

    def warm_up(self) -> None:
        """Run the model on one black picture."""
        width, height = self._size
        black = {"width": width, "height": height, "rgb": bytes(3 * width * height)}
        list(self.run([black]))

    def run(self, pictures: Sequence[Picture]) -> Iterator[Any]:
        """Yield the first output for each picture, in batches that span clips."""
        np = import_module("numpy")
        for at in range(0, len(pictures), self._params.batch):
            batch = np.stack(
                [self._prepare(each) for each in pictures[at : at + self._params.batch]]
            )
            yield from self._session.run(None, {self._input: batch})[0]

    def _prepare(self, picture: Picture) -> Any:  # noqa: ANN401 - an array
        np, frames = import_module("numpy"), import_module("av").VideoFrame
        size = (picture["height"], picture["width"], 3)
        levels = np.frombuffer(picture["rgb"], "uint8").reshape(size)
        if (picture["width"], picture["height"]) != self._size:
            frame = frames.from_ndarray(levels, format="rgb24")
            levels = frame.reformat(*self._size, format="rgb24").to_ndarray()
        # `mean` and `deviation` make the result 64-bit. The model needs 32 bits, and color channels
        # first.
        scaled = (levels.astype("float32") / _WHITE - self._params.mean) / self._params.deviation
        return scaled.astype("float32").transpose(2, 0, 1)
