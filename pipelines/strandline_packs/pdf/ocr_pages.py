"""The stage `ocr-pages`: recognizes the text of pages that have no usable text layer."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.columns import find_column, list_strings, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.pdf.ocr_engine import OcrEngine, Recognition
from strandline_packs.pdf.page_process import Method

_IMAGE = "page_image"


class OcrPages(Stage):
    """Fills `text` and `confidence` of pages whose `method` is `needs-ocr`, from `page_image`."""

    class Params(Stage.Params):
        """Configures the recognition."""

        min_score: float = Field(
            default=0.5, ge=0, le=1, description="Minimum score of a line; others are left out."
        )
        threads: int = Field(default=1, ge=1, description="Threads of a model.")
        keep_images: bool = Field(default=False, description="Keep the column `page_image`.")
        bad_images: BadInput = Field(
            default=BadInput.DROP,
            description="Treatment of pages whose picture is missing or can't be decoded: `drop` "
            "and count them, or `fail` the source.",
        )

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL", "numpy", "onnxruntime", "rapidocr")
    keeps_columns = True
    adds_columns = ("text", "method", "confidence")

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "text", "method", "confidence", _IMAGE)

    def change_columns(self, columns: Columns) -> Columns:
        return super().change_columns(
            columns if self.params.keep_images else columns.without((_IMAGE,))
        )

    def setup(self) -> None:
        """Load the models."""
        self._engine = OcrEngine(self.params.min_score, self.params.threads)

    def process(self, task: Task) -> Task | None:
        """Recognize the text of every page that needs OCR.

        Raises:
            MissingColumnError: the rows are not pages.
            UnreadableFileError: a page has no readable picture and `badImages` is `fail`.
        """
        table = task.table
        keys = list_strings(table, "key")
        texts = list_strings(table, "text")
        methods = list_strings(table, "method")
        scores = find_column(table, "confidence").to_pylist()
        images = find_column(table, _IMAGE)
        kept = []
        for at, method in enumerate(methods):
            if method == Method.NEEDS_OCR:
                # Copy one picture at a time out of the table.
                found = self._recognise(keys[at], images[at].as_py())
                if found is None:
                    continue
                texts[at], scores[at], methods[at] = found.text, found.confidence, Method.OCR.value
            kept.append(at)
        if not kept:
            return None
        table = set_column(table, "text", texts, pa.string())
        table = set_column(table, "method", methods, pa.string())
        table = set_column(table, "confidence", scores, pa.float64())
        if not self.params.keep_images:
            table = table.drop_columns([_IMAGE])
        return task.replace(table if len(kept) == len(methods) else table.take(kept))

    def _recognise(self, key: str, image: bytes | None) -> Recognition | None:
        """Return the text of a picture, or None if the page is dropped."""
        try:
            found = self._engine.recognise(image or b"")
        except MemoryError:
            raise
        except Exception as error:  # decoders raise arbitrary errors for damaged files
            if self.params.bad_images is BadInput.FAIL:
                msg = f"{key}: no readable picture of the page ({error})"
                raise UnreadableFileError(msg) from error
            self.count("dropped: no readable picture of the page")
            return None
        self.count("pages: ocr" if found.text else "pages: ocr without text")
        return found
