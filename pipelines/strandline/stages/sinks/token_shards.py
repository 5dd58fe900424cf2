"""The sink `token-shards`: tokens as training reads them, `.bin` with an `.idx` beside it.

The format is that of Megatron's indexed datasets: the tokens of all documents one after another,
and an index of where each begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import SinkStage
from strandline.plan.task import Task
from strandline.stages.columns import find_column
from strandline.stages.sinks.jsonl_sink import SinkParams

_MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<QBQQ")  # version, type of tokens, sequences, documents and one
_VERSION = 1


class TokenBytes(IntEnum):
    """How many bytes a token takes."""

    TWO = 2
    FOUR = 4


_KINDS = {TokenBytes.TWO: (pa.uint16(), 8), TokenBytes.FOUR: (pa.int32(), 4)}


@register("token-shards")
class TokenShards(SinkStage):
    """Writes each task's tokens as `.bin`, and their index as `.idx`, as Megatron reads them."""

    class Params(SinkParams):
        """Where tokens are, and how wide."""

        column: str = Field(default="tokens", description="Column with lists of tokens.")
        token_bytes: TokenBytes = Field(
            default=TokenBytes.FOUR,
            description="`4`: any vocabulary. `2`: half the size, for vocabularies below 65,536.",
        )

    params: Params
    suffix: str = ".bin"

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

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
        sizes: list[int] = lengths.to_pylist()
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
