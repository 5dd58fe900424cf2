"""The sink `token-shards`: tokens as training reads them, `.bin` with an `.idx` beside it.

The format is that of Megatron's indexed datasets: the tokens of all documents one after another,
and an index of where each begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import SharingSink, Stage
from strandline.plan.task import Task
from strandline.stages.columns import find_column
from strandline.stages.sinks.jsonl_sink import SharingParams

_MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<QBQQ")  # version, type of tokens, sequences, documents and one
_VERSION = 1
_CHUNK = 1 << 20


class TokenBytes(IntEnum):
    """How many bytes a token takes."""

    TWO = 2
    FOUR = 4


_KINDS = {TokenBytes.TWO: (pa.uint16(), 8), TokenBytes.FOUR: (pa.int32(), 4)}


@register("token-shards")
class TokenShards(SharingSink):
    """Writes each task's tokens as `.bin`, and their index as `.idx`, as Megatron reads them."""

    class Params(SharingParams):
        """Where tokens are, and how wide."""

        column: str = Field(default="tokens", description="Column with lists of tokens.")
        token_bytes: TokenBytes = Field(
            default=TokenBytes.FOUR,
            description="`4`: any vocabulary. `2`: half the size, for vocabularies below 65,536.",
        )

    params: Params
    suffix: str = ".bin"
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes"})

    @property
    def target_bytes(self) -> int | None:
        return self.params.target_bytes

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def find_conflict(self, before: Sequence[Stage]) -> str | None:
        """Return which vocabulary of a stage before has tokens that do not fit."""
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
                    f"`tokenBytes: 2` has room for tokens up to {most:,}, and the tokenizer's go "
                    f"up to {largest:,}; write `tokenBytes: 4`"
                )
        return None

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the tokens of all rows, little-endian.

        Raises:
            TypeError: the column holds no lists of numbers.
            ArrowInvalid: a token does not fit into its bytes.
        """
        kind, _ = _KINDS[self.params.token_bytes]
        for chunk in self._find_lists(task.table).chunks:
            values = pc.list_flatten(chunk).cast(kind)
            width = self.params.token_bytes.value
            data = values.buffers()[1]
            if len(values):
                begin = values.offset * width
                file.write(data.slice(begin, len(values) * width))

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return what writes the index."""
        return {".idx": self._write_index}

    def _write_index(self, task: Task, file: BinaryIO) -> None:
        """Write how many tokens each row has, where they begin, and that each is a document."""
        lengths = pc.fill_null(pc.list_value_length(self._find_lists(task.table)), 0)
        self._format_index(lengths.to_pylist(), file)

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        sizes = _read_sizes(shared[".idx"])
        if suffix == ".idx":
            self._format_index(
                [size for rows in ranges for size in sizes[rows.start : rows.stop]], file
            )
            return
        width = self.params.token_bytes.value
        begins = list(accumulate(sizes, initial=0))
        for rows in ranges:
            begin, end = begins[rows.start] * width, begins[rows.stop] * width
            _copy_bytes(shared[suffix], begin, end, file)

    def _format_index(self, sizes: Sequence[int], file: BinaryIO) -> None:
        _, code = _KINDS[self.params.token_bytes]
        file.write(_MAGIC + _HEAD.pack(_VERSION, code, len(sizes), len(sizes) + 1))
        begin, begins = 0, []
        for size in sizes:
            begins.append(begin)
            begin += size * self.params.token_bytes.value
        file.write(struct.pack(f"<{len(sizes)}i", *sizes))
        file.write(struct.pack(f"<{len(sizes)}q", *begins))
        file.write(struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1)))

    def _find_lists(self, table: pa.Table) -> pa.ChunkedArray:
        column = find_column(table, self.params.column)
        kind = column.type
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if not (is_list and pa.types.is_integer(kind.value_type)):
            msg = f"the column {self.params.column!r} holds {kind}, not lists of tokens"
            raise TypeError(msg)
        return column


def _read_sizes(index: BinaryIO) -> Sequence[int]:
    """Return how many tokens each row has."""
    head = index.read(len(_MAGIC) + _HEAD.size)
    _, _, count, _ = _HEAD.unpack_from(head, len(_MAGIC))
    return struct.unpack(f"<{count}i", index.read(4 * count))


def _copy_bytes(source: BinaryIO, begin: int, end: int, file: BinaryIO) -> None:
    source.seek(begin)
    while begin < end:
        chunk = source.read(min(_CHUNK, end - begin))
        if not chunk:
            msg = "the file is shorter than its index says"
            raise ValueError(msg)
        file.write(chunk)
        begin += len(chunk)
