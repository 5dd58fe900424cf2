"""Bloom filters as files: a header block with a description, then the bits.

The module must not depend on how a filter is filled or used.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from strandline.data.files.opening import (
    READ_ERRORS,
    UnreadableFileError,
    explain_error,
    open_binary,
)
from strandline_packs.dedup.drop_duplicates import Normalisation
from strandline_packs.dedup.seen.bloom_filter import (
    BloomShape,
    Digests,
    find_in_bits,
    plan_shape,
    write_bits,
)

FORMAT = "strandline-bloom-1"
_BLOCK = 4096  # size of the header, in bytes
_MORE = 1.02  # growth factor if too many bits are set


class FilterHead(BaseModel):
    """Description of a filter.

    Attributes:
        keys: number of added digests.
        error_rate: measured rate of false positives.
        columns, normalise: the digested columns, and the normalization of their texts.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    format: str = Field(default=FORMAT, pattern=f"^{FORMAT}$")
    keys: int = Field(ge=0)
    error_rate: float
    columns: tuple[str, ...]
    normalise: Normalisation
    hashes: int = Field(ge=1)
    segments: int = Field(ge=1)
    segment_bytes: int = Field(ge=1)

    @property
    def shape(self) -> BloomShape:
        """Layout of the bits."""
        return BloomShape(self.hashes, self.segments, self.segment_bytes)


class BloomFile:
    """A filter that was read from a file.

    Args:
        head: description of the filter.
        bits: bits of the filter.
        digest: digest of the whole file, see `digest_content`.
    """

    def __init__(self, head: FilterHead, bits: npt.NDArray[np.uint8], digest: str) -> None:
        self.head = head
        self.digest = digest
        self._bits = bits

    def find(self, digests: Digests) -> list[bool]:
        """Return whether the filter contains each digest; see `find_in_bits`."""
        return find_in_bits(digests, self.head.shape, self._bits)


def write_filter(
    path: Path,
    digests: Digests,
    error_rate: float,
    columns: tuple[str, ...],
    normalise: Normalisation,
) -> FilterHead:
    """Write a filter whose rate of false positives is within a limit.

    Args:
        digests: see `write_bits`.
        columns, normalise: see `FilterHead`.
    """
    shape = plan_shape(len(digests), error_rate)
    with path.open("wb") as file:
        while (actual := _write_bits(digests, shape, file)) > error_rate:
            # Small filters can by chance have more set bits than planned. Retry with a larger
            # filter.
            shape = BloomShape(shape.hashes, shape.segments, int(shape.segment_bytes * _MORE) + 1)
        head = FilterHead(
            keys=len(digests),
            error_rate=actual,
            columns=columns,
            normalise=normalise,
            hashes=shape.hashes,
            segments=shape.segments,
            segment_bytes=shape.segment_bytes,
        )
        # Write the header last: the actual error rate depends on the written bits.
        file.seek(0)
        file.write(_render_head(head))
    return head


def read_filter(path: str) -> BloomFile:
    """Read a filter at a path or URL into memory.

    Raises:
        UnreadableFileError: the file is missing, truncated, or not a filter.
    """
    try:
        with open_binary(path) as file:
            first, rest = file.read(_BLOCK), file.read()
        head = FilterHead.model_validate_json(first)
    except ValidationError as error:
        msg = f"{path}: this is not a filter written by `fill-bloom`"
        raise UnreadableFileError(msg) from error
    # An unknown URL scheme raises ValueError, and a missing library raises ImportError.
    except (*READ_ERRORS, ValueError, ImportError) as error:
        raise explain_error(path, error) from error
    if len(rest) != head.shape.bytes:
        msg = f"{path}: the filter should have {head.shape.bytes} bytes of bits, not {len(rest)}"
        raise UnreadableFileError(msg)
    state = blake2b(first, digest_size=16)
    state.update(rest)
    return BloomFile(head, np.frombuffer(rest, np.uint8), state.hexdigest())


def _write_bits(digests: Digests, shape: BloomShape, file: BinaryIO) -> float:
    file.seek(_BLOCK)
    return write_bits(digests, shape, file)


def _render_head(head: FilterHead) -> bytes:
    return (
        # Pad the header with spaces, which JSON parsers ignore. The bits start after the header.
        json.dumps(head.model_dump(mode="json", by_alias=True)).encode().ljust(_BLOCK - 1) + b"\n"
    )
