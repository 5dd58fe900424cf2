"""Layouts of token shards: encodes and decodes the index files of several readers.

This module converts lengths to bytes, and back. It must not depend on the origin of tokens, or the
shard files.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import ClassVar

import pyarrow as pa

_MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<QBQQ")  # version, token type, sequence count, document count plus one
_VERSION = 1


class TokenBytes(IntEnum):
    """The size of a token, in bytes."""

    TWO = 2
    FOUR = 4


class TokenLayout(ABC):
    """Files that a reader expects for a shard of tokens.

    Attributes:
        suffix: suffix of the token file.
        index_suffix: suffix of the index.
        mask_suffix: suffix of the loss mask, or None if there is none.
        kinds: token types by their size in bytes.
    """

    suffix: ClassVar[str]
    index_suffix: ClassVar[str]
    mask_suffix: ClassVar[str | None] = None
    kinds: ClassVar[dict[TokenBytes, pa.DataType]]

    @abstractmethod
    def format_index(self, sizes: Sequence[int], width: TokenBytes) -> bytes:
        """Return the index for documents with these numbers of tokens."""

    @abstractmethod
    def read_sizes(self, index: bytes) -> Sequence[int]:
        """Return how many tokens each document has."""


class MegatronLayout(TokenLayout):
    """Megatron's indexed data sets: `.bin`, and `.idx` with the start of each document."""

    suffix = ".bin"
    index_suffix = ".idx"
    kinds: ClassVar[dict[TokenBytes, pa.DataType]] = {
        TokenBytes.TWO: pa.uint16(),
        TokenBytes.FOUR: pa.int32(),
    }
    # Megatron's codes of types: 8 is uint16, 4 is int32.
    _codes: ClassVar[dict[TokenBytes, int]] = {TokenBytes.TWO: 8, TokenBytes.FOUR: 4}

    def format_index(self, sizes: Sequence[int], width: TokenBytes) -> bytes:
        count = len(sizes)
        begins = accumulate((size * width.value for size in sizes[:-1]), initial=0)
        return b"".join(
            (
                _MAGIC + _HEAD.pack(_VERSION, self._codes[width], count, count + 1),
                struct.pack(f"<{count}i", *sizes),
                struct.pack(f"<{count}q", *begins) if count else b"",
                # Every document is a separate sequence.
                struct.pack(f"<{count + 1}q", *range(count + 1)),
            )
        )

    def read_sizes(self, index: bytes) -> Sequence[int]:
        _, _, count, _ = _HEAD.unpack_from(index, len(_MAGIC))
        return struct.unpack_from(f"<{count}i", index, len(_MAGIC) + _HEAD.size)


class DatatroveLayout(TokenLayout):
    """datatrove's layout: `.ds`, `.ds.index` with document ends, and `.ds.loss` with a mask."""

    suffix = ".ds"
    index_suffix = ".ds.index"
    mask_suffix = ".ds.loss"
    kinds: ClassVar[dict[TokenBytes, pa.DataType]] = {
        TokenBytes.TWO: pa.uint16(),
        TokenBytes.FOUR: pa.uint32(),
    }

    def format_index(self, sizes: Sequence[int], width: TokenBytes) -> bytes:
        del width  # ends are counted in tokens
        return struct.pack(f"<{len(sizes)}Q", *accumulate(sizes))

    def read_sizes(self, index: bytes) -> Sequence[int]:
        ends = struct.unpack(f"<{len(index) // 8}Q", index)
        return [end - begin for begin, end in pairwise((0, *ends))]
