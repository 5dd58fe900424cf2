"""Recognizes text in pictures of pages with RapidOCR, and finds areas of text in any picture."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from strandline.plan.packages import load_module
from strandline_packs.pdf.page_layout import arrange_lines
from strandline_packs.pdf.page_lines import LineSegment
from strandline_packs.pdf.page_text import join_lines, repair_characters

_LIBRARY_PATH = "LD_LIBRARY_PATH"
_MOST_ASPECT = 4  # longest side of a searched picture, as a multiple of the other


class Recognition(NamedTuple):
    """The text of a picture, and the mean score of its characters, from 0 to 1."""

    text: str
    confidence: float


class OcrEngine:
    """The models of RapidOCR, which come with the package.

    Args:
        min_score: lines with a lower score are left out.
        threads: threads of a model.
    """

    def __init__(self, min_score: float, threads: int) -> None:
        self._numpy = load_module("numpy")
        self._images = load_module("PIL.Image")
        params = {
            "Global.text_score": min_score,
            "Global.log_level": "critical",
            # The classifier of upside-down lines garbles long upright lines, and pages are upright.
            "Global.use_cls": False,
            # Lines of a batch are padded to the longest line, which costs more than it saves.
            "Rec.rec_batch_num": 1,
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
        with keeping_library_path():
            self._engine = load_module("rapidocr").RapidOCR(params=params)
        logging.getLogger("RapidOCR").setLevel(logging.CRITICAL)

    def recognise(self, content: bytes) -> Recognition:
        """Return the text of an image file in reading order.

        Raises:
            Exception: the image can't be decoded, with any error of Pillow.
        """
        image = self._images.open(io.BytesIO(content)).convert("RGB")
        # RapidOCR takes blue first, as OpenCV does.
        pixels = self._numpy.asarray(image)[:, :, ::-1]
        answer: Any = self._engine(self._numpy.ascontiguousarray(pixels))
        if answer.boxes is None or not len(answer.boxes):
            return Recognition("", 0.0)
        height = float(image.height)
        segments: list[LineSegment] = []
        scores: list[tuple[int, float]] = []
        for box, text, score in zip(answer.boxes, answer.txts, answer.scores, strict=True):
            if repaired := repair_characters(text):
                segments.append(_build_segment(repaired, box, height, len(segments)))
                scores.append((len(repaired), float(score)))
        text = join_lines(arrange_lines(segments, height))
        number = sum(length for length, _ in scores)
        mean = sum(length * score for length, score in scores) / number if number else 0.0
        return Recognition(text, round(mean, 4))

    def find_lines(self, pixels: Any, min_score: float) -> list[list[float]]:
        """Return left, top, right, and bottom of each line of text, without reading the text.

        Args:
            pixels: array of height × width × 3 bytes, blue first.
        """
        least = max(pixels.shape) // _MOST_ASPECT
        # RapidOCR enlarges the shorter side, so a narrow strip would need gigabytes.
        missing = [(0, max(0, least - side)) for side in pixels.shape[:2]]
        pixels = self._numpy.pad(pixels, (*missing, (0, 0)))
        boxes = self._engine(pixels, use_rec=False, box_thresh=min_score).boxes
        return [] if boxes is None else [[*box.min(0), *box.max(0)] for box in boxes]


@contextmanager
def keeping_library_path() -> Iterator[None]:
    """Undo what OpenCV changes when it is loaded: child processes would load its libraries."""
    before = os.environ.get(_LIBRARY_PATH)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_LIBRARY_PATH, None)
        else:
            os.environ[_LIBRARY_PATH] = before


def _build_segment(text: str, box: Any, height: float, order: int) -> LineSegment:
    """Return the segment of a box: four corners, with the origin at the upper left."""
    across, down = [float(point[0]) for point in box], [float(point[1]) for point in box]
    return LineSegment(
        text, min(across), height - max(down), max(across), height - min(down), order
    )
