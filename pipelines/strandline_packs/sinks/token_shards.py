"""The sink `token-shards`: writes tokens for training, with an index.

The tokens of all documents follow each other; the index has the bounds of each document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import accumulate
from typing import Any, BinaryIO, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, Field, model_validator

from strandline.data.tables.columns import find_column
from strandline.plan.stages.ends import SharingSink
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.sinks.formats.token_layouts import (
    DatatroveLayout,
    MegatronLayout,
    TokenBytes,
    TokenLayout,
)
from strandline_packs.sinks.jsonl_sink import SharingParams

_CHUNK = 1 << 20
_MASK_BYTES = 1


class TokenFormat(StrEnum):
    """Program that reads the files."""

    MEGATRON = "megatron"
    DATATROVE = "datatrove"


_LAYOUTS: dict[TokenFormat, TokenLayout] = {
    TokenFormat.MEGATRON: MegatronLayout(),
    TokenFormat.DATATROVE: DatatroveLayout(),
}


class TokenShards(SharingSink):
    """Writes each task's tokens as one file with an index, for Megatron or datatrove."""

    class Params(SharingParams):
        """Configures the token column, and the size of a token."""

        column: str = Field(default="tokens", description="Column with lists of tokens.")
        token_bytes: TokenBytes = Field(
            default=TokenBytes.FOUR,
            description="`4`: any vocabulary. `2`: half the size, for vocabularies below 65,536.",
        )
        format: TokenFormat = Field(
            default=TokenFormat.MEGATRON,
            description="`megatron`: `.bin` and `.idx`. `datatrove`: `.ds` and `.ds.index`.",
        )
        mask: str | None = Field(
            default=None,
            min_length=1,
            description="Column with lists that mark the tokens that count for the loss; written "
            "as `.ds.loss`, which needs `format: datatrove`.",
        )

        @model_validator(mode="after")
        def _check_mask(self) -> Self:
            if self.mask is not None and _LAYOUTS[self.format].mask_suffix is None:
                msg = f"`format: {self.format}` does not support `mask`; set `format: datatrove`"
                raise ValueError(msg)
            return self

    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes", "format", "mask"})

    def __init__(self, params: BaseModel | None = None, **values: Any) -> None:  # noqa: ANN401 - see the base class
        super().__init__(params, **values)
        self._layout = _LAYOUTS[self.params.format]
        self.suffix = self._layout.suffix

    def list_needed_columns(self) -> tuple[str, ...]:
        mask = self.params.mask
        return (self.params.column,) if mask is None else (self.params.column, mask)

    def find_conflict(self, before: Sequence[Stage]) -> str | None:
        """Return a message if an earlier stage's vocabulary exceeds the token size, or None."""
        most = (1 << 8 * TokenBytes.TWO) - 1
        if self.params.token_bytes is not TokenBytes.TWO:
            return None
        for stage in reversed(before):
            find_largest: Callable[[], int | None] = getattr(
                stage, "find_largest_token", lambda: None
            )
            largest = find_largest() if self.params.column in stage.adds_columns else None
            if largest is not None and largest > most:
                return (
                    f"`tokenBytes: 2` supports tokens up to {most:,}, but the tokenizer's go up to "
                    f"{largest:,}; set `tokenBytes: 4`"
                )
        return None

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the tokens of all rows, little-endian.

        Raises:
            TypeError: the column has no lists of numbers.
            ArrowInvalid: a token exceeds its size.
        """
        kind = self._layout.kinds[self.params.token_bytes]
        for chunk in self._find_lists(task.table).chunks:
            values = pc.list_flatten(chunk).cast(kind)
            width = self.params.token_bytes.value
            # Write the buffer without a copy. The array may be a slice, so start at its offset.
            data = values.buffers()[1]
            # An empty array may have no buffer.
            if len(values):
                begin = values.offset * width
                file.write(data.slice(begin, len(values) * width))

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return the writers of the index, and of the mask if configured."""
        layout, mask = self._layout, self.params.mask
        companions = {layout.index_suffix: self._write_index}
        if mask is not None and layout.mask_suffix is not None:
            companions[layout.mask_suffix] = partial(self._write_mask, mask)
        return companions

    def _write_index(self, task: Task, file: BinaryIO) -> None:
        sizes = _measure(self._find_lists(task.table)).to_pylist()
        file.write(self._layout.format_index(sizes, self.params.token_bytes))

    def _write_mask(self, mask: str, task: Task, file: BinaryIO) -> None:
        """Write a byte for each token: 1 if it counts for the loss.

        Raises:
            TypeError: the column has no lists of booleans.
            ValueError: the mask of a row has another length than its tokens.
        """
        column = find_column(task.table, mask)
        if not _is_list(column.type) or not pa.types.is_boolean(column.type.value_type):
            msg = f"the column {mask!r} holds {column.type}, not lists of true and false"
            raise TypeError(msg)
        if not _measure(column).equals(_measure(self._find_lists(task.table))):
            msg = f"the column {mask!r} has lists of another length than {self.params.column!r}"
            raise ValueError(msg)
        for chunk in column.chunks:
            counts = pc.fill_null(pc.list_flatten(chunk), fill_value=False)
            file.write(counts.cast(pa.uint8()).to_numpy(zero_copy_only=False).tobytes())

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        sizes = self._layout.read_sizes(shared[self._layout.index_suffix].read())
        if suffix == self._layout.index_suffix:
            kept = [size for rows in ranges for size in sizes[rows.start : rows.stop]]
            file.write(self._layout.format_index(kept, self.params.token_bytes))
            return
        is_mask = suffix == self._layout.mask_suffix
        width = _MASK_BYTES if is_mask else self.params.token_bytes.value
        for begin, end in _find_spans(sizes, ranges, width):
            _copy_bytes(shared[suffix], begin, end, file)

    def _find_lists(self, table: pa.Table) -> pa.ChunkedArray:
        column = find_column(table, self.params.column)
        kind = column.type
        if not (_is_list(kind) and pa.types.is_integer(kind.value_type)):
            msg = f"the column {self.params.column!r} holds {kind}, not lists of tokens"
            raise TypeError(msg)
        return column


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _measure(lists: pa.ChunkedArray) -> pa.Array:
    """Return how long the list of each row is; a null is empty."""
    sizes = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    return sizes.combine_chunks()


def _find_spans(
    sizes: Sequence[int], ranges: Sequence[range], width: int
) -> Iterator[tuple[int, int]]:
    """Yield the byte range of each range of rows in a file."""
    begins = list(accumulate(sizes, initial=0))
    for rows in ranges:
        yield begins[rows.start] * width, begins[rows.stop] * width


def _copy_bytes(source: BinaryIO, begin: int, end: int, file: BinaryIO) -> None:
    source.seek(begin)
    while begin < end:
        chunk = source.read(min(_CHUNK, end - begin))
        if not chunk:
            msg = "the file is shorter than its index states"
            raise ValueError(msg)
        file.write(chunk)
        begin += len(chunk)
