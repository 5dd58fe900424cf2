"""The stage `decode-images`: decodes image files into one task per picture.

Image sizes differ by a factor of thousands. A task per image spreads the load evenly over the
workers. A later `group` can join the small results.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.data.files.buckets import FILE_SCHEMA
from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.columns import find_field, list_strings
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.images.color_profiles import ProfileError, convert_to_srgb
from strandline_packs.images.pictures import (
    PICTURE,
    Picture,
    decode_smaller,
    load_pillow,
    shrink,
    to_picture,
)
from strandline_packs.images.repairs import repair_file

IMAGE_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("format", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("picture", PICTURE),
    ]
)
# In these formats, the first frame is already the composite of all other frames.
_LAYERED = {"PSD"}


class DecodeImages(Stage):
    """Decodes files into tasks of a single row: key, format, width, height and `picture`."""

    class Params(Stage.Params):
        """Configures the image column, and how large or damaged images are handled."""

        column: str = Field(
            default="content",
            description="Column with the files. `image.bytes` is the field `bytes` of the column "
            "`image`, as in data sets of the hub; `image` alone also finds it.",
        )
        max_pixels: int = Field(
            default=50_000_000,
            ge=1,
            description="Maximum number of pixels; larger images are dropped and counted.",
        )
        longest: int | None = Field(
            default=None,
            ge=1,
            description="Maximum length of the longer side of `picture` in pixels: larger pictures "
            "are shrunk. A JPEG is decoded at half, a quarter, or an eighth of its size if that is "
            "at least twice this length. `width` and `height` stay those of the file.",
        )
        to_srgb: bool = Field(
            default=False,
            description="Convert images with an ICC profile to sRGB, also from CMYK. By default, "
            "stored values are taken as sRGB.",
        )
        bad_images: BadInput = Field(
            default=BadInput.DROP,
            description="Treatment of files that are not images or are damaged: `drop` and count "
            "them, or `fail` the source.",
        )

    version = "5"
    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"column", "longest", "to_srgb"})
    packages: ClassVar[tuple[str, ...]] = ("PIL",)
    keeps_columns = False
    adds_columns = tuple(IMAGE_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", self.params.column.partition(".")[0])

    def setup(self) -> None:
        """Load Pillow."""
        self._images = load_pillow("Image")

    def process(self, task: Task) -> list[Task] | None:
        """Return a task for each image. An image with several frames contributes the first.

        Raises:
            UnreadableFileError: an image can't be decoded and `badImages` is `fail`.
        """
        keys = list_strings(task.table, "key")
        contents = find_field(task.table, self.params.column)
        # In Hugging Face data sets, the image type is a struct such as `{bytes, path}`.
        if pa.types.is_struct(contents.type):
            contents = find_field(task.table, f"{self.params.column}.bytes")
        tasks = []
        with self._bound():
            for key, content in zip(keys, contents, strict=True):
                row = self._decode(key, content.as_py())
                if row is not None:  # build tables here: otherwise, pictures are in memory twice
                    tasks.append(task.replace(_build_table(row)))
        self._count_left_out(task.table)
        return tasks or None

    def _count_left_out(self, table: pa.Table) -> None:
        """Count the values in columns that the output lacks, such as captions and masks.

        Columns with file metadata do not count.
        """
        known = {*self.list_needed_columns(), self.params.column, *FILE_SCHEMA.names}
        for name in table.column_names:
            column = table.column(name)
            left_out = len(column) - column.null_count
            if left_out and name not in known:
                self.count(f"left out: column {name!r}", left_out)

    @contextmanager
    def _bound(self) -> Iterator[None]:
        """Make Pillow reject images above the limit while the context is open."""
        before = self._images.MAX_IMAGE_PIXELS
        self._images.MAX_IMAGE_PIXELS = self.params.max_pixels / 2  # Pillow allows twice this
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self._images.DecompressionBombWarning)
                yield
        finally:
            self._images.MAX_IMAGE_PIXELS = before

    def _decode(self, key: str, content: bytes | None) -> dict[str, Any] | None:
        try:
            row = self._read(content or b"")
        except MemoryError:  # running out of memory is not the fault of the file
            raise
        except self._images.DecompressionBombError:
            self.count("dropped: too large")
            return None
        except Exception as error:  # decoders raise arbitrary errors for damaged files
            if self.params.bad_images is BadInput.FAIL:
                msg = f"{key}: not a decodable image ({error})"
                raise UnreadableFileError(msg) from error
            self.count("dropped: not an image")
            return None
        return {"key": key, **row}

    def _read(self, content: bytes) -> dict[str, Any]:
        """Return the format, the size of the file's image, and the picture.

        If Pillow rejects the file, try again with a repaired copy: see `repair_file`.
        """
        try:
            return self._open(content)
        except (MemoryError, self._images.DecompressionBombError):
            raise
        except Exception:  # decoders raise arbitrary errors for damaged files
            substitute = repair_file(content)
            if substitute is None:
                raise
            answer = self._open(substitute)
        self.count("repaired")
        return answer

    def _open(self, content: bytes) -> dict[str, Any]:
        image = self._images.open(io.BytesIO(content))
        longest, size = self.params.longest, None
        if longest is not None:
            size = decode_smaller(image, longest)
        picture: Picture = to_picture(self._find_colors(image))
        width, height = size or (picture["width"], picture["height"])
        if longest is not None:
            picture = shrink(picture, longest)
        self._count_frames(image)
        kind = image.format.lower()
        return {"format": kind, "width": width, "height": height, "picture": picture}

    def _find_colors(self, image: Any) -> Any:  # noqa: ANN401 - Pillow's image
        """Return the image in sRGB, if the parameters ask for sRGB and the profile is readable."""
        if not self.params.to_srgb:
            return image
        try:
            converted = convert_to_srgb(image)
        except ProfileError:  # the colors are nearly right, and a dropped image would be worse
            self.count("profiles that can't be read")
            return image
        if converted is not image:
            self.count("converted to sRGB")
        return converted

    def _count_frames(self, image: Any) -> None:  # noqa: ANN401 - Pillow's image
        """Count the frames after the first one as left out."""
        if image.format in _LAYERED:
            return
        try:
            further = getattr(image, "n_frames", 1) - 1
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a later frame may be damaged, and the first is decoded
            self.count("left out: frames that can't be counted")
            return
        if further > 0:
            self.count("left out: frames after the first", further)


def _build_table(row: Mapping[str, Any]) -> pa.Table:
    """Return a table of a row. The pixels of its picture are not copied."""
    picture = row["picture"]
    pixels = pa.py_buffer(picture["rgb"])
    ends = pa.py_buffer(np.array([0, pixels.size], np.int32))
    rgb = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pixels])
    sides = [pa.array([picture[side]], pa.int32()) for side in ("width", "height")]
    columns = [
        pa.StructArray.from_arrays([*sides, rgb], fields=list(PICTURE))
        if field.name == "picture"
        else pa.array([row[field.name]], field.type)
        for field in IMAGE_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=IMAGE_SCHEMA)
