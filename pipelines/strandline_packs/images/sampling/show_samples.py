"""The stage `show-samples`: shows some rows in the report, with their pictures and texts."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, list_texts
from strandline.data.tables.summaries import dump_piece, gather, merge_pieces, read_piece
from strandline.plan.task import Task
from strandline_packs.images.pictures import (
    Picture,
    decode_smaller,
    load_pillow,
    to_image,
    to_picture,
)
from strandline_packs.images.sampling.sampled_outcomes import SampledOutcomes
from strandline_packs.images.sampling.samples import (
    ClipSample,
    SampledClip,
    draw_jpeg,
    rank_clip,
)

ALL, NO_VALUE, OTHER = "rows", "no value", "other values"
_VALUES = 50  # values of `by` that are counted apart
_NAME = 100  # characters of a value
_TEXT = 600  # characters of a text
_LONGEST = 480  # longest side of a picture, in pixels
_PIXELS = 50_000_000  # larger pictures are not decoded


class ShowSamples(SampledOutcomes):
    """Counts rows by the values of a column, and shows some rows of each value in the report."""

    class Params(SampledOutcomes.Params):
        """Configures the groups, and what is shown."""

        columns: list[str] = Field(
            min_length=1,
            description="Columns to show: pictures, image files, texts, and numbers. Of a text, "
            f"the first {_TEXT} characters are shown.",
        )
        by: str | None = Field(
            default=None,
            min_length=1,
            description="Column whose values are counted, such as `method` of `read-pdf`: up to "
            f"{_VALUES} values, the others together. By default, all rows are one group.",
        )
        key: str = Field(default="key", min_length=1, description="Column with names of the rows.")

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("PIL",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        params = self.params
        return (params.key, *params.columns, *([params.by] if params.by else ()))

    def process(self, task: Task) -> Task:
        """Gather samples, and pass on the rows.

        Raises:
            MissingColumnError: a column is missing.
        """
        by = self.params.by
        values = list_texts(task.table, by) if by else [ALL] * task.num_rows
        self.gather_samples(task.table, [value[:_NAME] or NO_VALUE for value in values])
        return task

    def list_clips(self, table: pa.Table) -> list[str]:
        return list_texts(table, self.params.key)

    def show_clip(self, table: pa.Table, name: str) -> SampledClip:
        row = {column: find_column(table, column)[0].as_py() for column in self.params.columns}
        pictures = [picture for value in row.values() if (picture := _read_picture(value))]
        jpeg = draw_jpeg([_join(pictures)], _LONGEST) if pictures else b""
        texts = tuple(_cut(value) for value in row.values() if value and isinstance(value, str))
        numbers = [_show(column, value) for column, value in row.items() if _is_number(value)]
        caption = ", ".join((name, *numbers))
        return SampledClip(rank_clip(name), caption, jpeg, texts=texts)

    def flush(self) -> bytes | None:
        folded = _fold(self._gathered)
        self._gathered.clear()
        return dump_piece(folded)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, ClipSample.parse)
        out.write_bytes(dump_piece(_fold(read_piece(out, ClipSample.parse))) or b"")


def _fold(samples: Mapping[str, ClipSample]) -> dict[str, ClipSample]:
    """Join the samples of all values but the first in alphabetical order.

    A value among the first is among the first of every piece, so the result does not depend on the
    order of merging.
    """
    folded: dict[str, ClipSample] = {}
    known = sorted(samples.keys() - {OTHER})[:_VALUES]
    for name, sample in samples.items():
        gather(folded, name if name in known else OTHER, sample)
    return folded


def _read_picture(value: Any) -> Picture | None:  # noqa: ANN401 - value of any column
    """Return a picture, or the picture in an image file; None for other values."""
    if isinstance(value, dict) and value.keys() >= {"width", "height", "rgb"}:
        return value
    if not isinstance(value, bytes):
        return None
    library = load_pillow("Image")
    try:
        with library.open(io.BytesIO(value)) as image:
            if image.width * image.height > _PIXELS:
                return None
            decode_smaller(image, _LONGEST)
            return to_picture(image)
    except (OSError, ValueError, SyntaxError, library.DecompressionBombError):
        return None  # a row with a damaged picture is counted and named nevertheless


def _join(pictures: Sequence[Picture]) -> Picture:
    """Return pictures side by side, on white."""
    if len(pictures) == 1:
        return pictures[0]
    images = [to_image(each) for each in pictures]
    size = (sum(each.width for each in images), max(each.height for each in images))
    ground = load_pillow("Image").new("RGB", size, "white")
    left = 0
    for image in images:
        ground.paste(image, (left, 0))
        left += image.width
    return to_picture(ground)


def _cut(text: str) -> str:
    return text[:_TEXT] + "…" * (len(text) > _TEXT)


def _is_number(value: Any) -> bool:  # noqa: ANN401 - value of any column
    return isinstance(value, float | int)


def _show(name: str, value: Any) -> str:  # noqa: ANN401 - a number
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
