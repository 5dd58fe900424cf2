"""Models of pictures as ONNX files: stages that have one, and what it is given.

It knows pictures and arrays, nothing of what a model was made for.
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

_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_WHITE = 255
_AXES = 4  # pictures, colours, height, width


class ModelParams(SessionParams, ModelFileParams):
    """Which model, and what it is given."""

    model: str = Field(
        min_length=1,
        description="ONNX file at a path or fsspec URL; its one input takes pictures × 3 × height "
        "× width of 32-bit floats. What is in it is part of the fingerprint.",
    )
    batch: int = Field(
        default=16, ge=1, description="Pictures of one call, of all clips of a task."
    )
    size: tuple[int, int] | None = Field(
        default=None,
        description="Width and height of pictures, where the model leaves them open.",
    )
    mean: tuple[float, float, float] = Field(
        default=_IMAGENET[0], description="Taken from red, green and blue, which are from 0 to 1."
    )
    deviation: tuple[float, float, float] = Field(
        default=_IMAGENET[1], description="What is left is divided by."
    )


class ModelStage(Stage):
    """What stages with a model share: it is copied once a node and warm before the first task."""

    Params = ModelParams
    params: ModelParams
    packages: ClassVar[tuple[str, ...]] = ("av", "numpy", "onnxruntime")
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"device", "batch", "threads"})

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model."""
        return self.params.digests

    def setup_on_node(self) -> None:
        """Copy the model to the node's disk, from which its workers load it."""
        copy_model(self.params.model, self.params.digest, ".onnx")

    def setup(self) -> None:
        """Load the model, and run it once, since the first call is the slowest."""
        path = copy_model(self.params.model, self.params.digest, ".onnx")
        self._model = OnnxModel(self.params, path)
        self._model.warm_up()


class OnnxModel:
    """A model that is loaded, and takes pictures.

    Raises:
        ModelError: it has other inputs than pictures, or the device is not there.
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
            msg = f"{params.model}: it must take pictures × 3 × height × width; it takes {given}"
            raise ModelError(msg)
        sides = (shape[3], shape[2])
        if all(isinstance(side, int) for side in sides):
            return inputs[0].name, sides
        if params.size is None:
            msg = f"{params.model}: it takes pictures of any size; say in `size` which they get"
            raise ModelError(msg)
        return inputs[0].name, params.size

    def warm_up(self) -> None:
        """Run it on one black picture."""
        width, height = self._size
        black = {"width": width, "height": height, "rgb": bytes(3 * width * height)}
        list(self.run([black]))

    def run(self, pictures: Sequence[Picture]) -> Iterator[Any]:
        """Yield the first output of each picture, in batches that are filled across clips."""
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
        scaled = (levels.astype("float32") / _WHITE - self._params.mean) / self._params.deviation
        return scaled.astype("float32").transpose(2, 0, 1)
