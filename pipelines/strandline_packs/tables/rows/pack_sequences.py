"""The stage `pack-sequences`: packs rows of tokens into sequences of the trainer's length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import find_column, list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.rows.packing import SequencePiece, cut_sequences, fit_sequences

_KEY = "key"
_COLUMNS = ("document_lengths", "document_keys", "padding")


class Packing(StrEnum):
    """How documents are put into sequences."""

    CUT = "cut"
    BEST_FIT = "best-fit"


_PACK: dict[Packing, Callable[[Sequence[int], int], list[list[SequencePiece]]]] = {
    Packing.CUT: cut_sequences,
    Packing.BEST_FIT: fit_sequences,
}


class PackSequences(Stage):
    """Packs token rows of a task into sequences of at most `length` tokens, without losing any."""

    class Params(Stage.Params):
        """Configures the length of sequences, and the packing."""

        length: int = Field(ge=1, description="Maximum number of tokens of a sequence.")
        method: Packing = Field(
            default=Packing.CUT,
            description="`cut`: documents follow each other and are cut wherever a sequence is "
            "full. `best-fit`: only documents longer than a sequence are cut; some "
            "sequences are not full.",
        )
        pad: int | None = Field(
            default=None,
            ge=0,
            description="Token that pads sequences that are not full; without it, they are "
            "shorter. The column `padding` has the number of padding tokens.",
        )
        min_tokens: int = Field(
            default=1,
            ge=1,
            description="Minimum number of tokens of a sequence; tokens of shorter sequences are "
            "dropped and counted.",
        )
        column: str = Field(default="tokens", min_length=1, description="Column with the tokens.")
        mask: str | None = Field(
            default=None,
            min_length=1,
            description="Column with lists of true and false, one value per token, that is packed "
            "in the same way; padding is false.",
        )

    params: Params
    mixes_rows = True
    added_params: ClassVar[frozenset[str]] = frozenset({"mask"})

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column, *self._list_masks())

    def change_columns(self, columns: Columns) -> Columns:  # noqa: ARG002 - the answer has new rows
        return Columns((_KEY, self.params.column, *self._list_masks(), *_COLUMNS))

    def process(self, task: Task) -> Task | None:
        """Pack the rows of a task. `tokens in` equals `tokens out` plus `tokens dropped`.

        Raises:
            MissingColumnError: the column is missing.
            TypeError: the column has no lists of numbers, or the mask no lists of booleans.
            ValueError: a mask has another length than its tokens.
        """
        table, params = task.table, self.params
        column = _find_lists(table, params.column, "whole numbers", pa.types.is_integer)
        lengths = np.asarray(column.value_lengths().fill_null(0))
        masks = {
            name: _find_lists(table, name, "true and false", pa.types.is_boolean)
            for name in self._list_masks()
        }
        for name, mask in masks.items():
            if not np.array_equal(np.asarray(mask.value_lengths().fill_null(0)), lengths):
                msg = f"the column {name!r} has lists of another length than {params.column!r}"
                raise ValueError(msg)
        sequences = _PACK[params.method](lengths.tolist(), params.length)
        whole = [each for each in sequences if _measure(each) >= params.min_tokens]
        numbers = list(map(_measure, whole))
        self._count(int(lengths.sum()), sum(numbers), sequences)
        if not whole:
            return None
        has_key = _KEY in table.column_names
        keys = (
            list_texts(table, _KEY)
            if has_key
            else [f"{task.key}#{at:08d}" for at in range(table.num_rows)]
        )
        padding = [0 if params.pad is None else params.length - number for number in numbers]
        packed = pa.table(
            {
                # A sequence is identified by its first token, because no other sequence starts with
                # that token.
                _KEY: [f"{keys[first.document]}@{first.begin}" for first, *_ in whole],
                params.column: _join(column, lengths, whole, padding, params.pad or 0),
                **{
                    name: _join(mask, lengths, whole, padding, filler=False)
                    for name, mask in masks.items()
                },
                "document_lengths": pa.array(
                    [[piece.end - piece.begin for piece in each] for each in whole],
                    pa.list_(pa.int32()),
                ),
                "document_keys": pa.array(
                    [[keys[piece.document] for piece in each] for each in whole],
                    pa.list_(pa.string()),
                ),
                "padding": pa.array(padding, pa.int32()),
            }
        )
        return task.replace(packed)

    def _list_masks(self) -> tuple[str, ...]:
        return () if self.params.mask is None else (self.params.mask,)

    def _count(self, before: int, after: int, sequences: Sequence[Sequence[SequencePiece]]) -> None:
        self.count("tokens in", before)
        self.count("tokens out", after)
        if before > after:
            self.count("tokens dropped", before - after)
        parts: dict[int, int] = {}
        for each in sequences:
            for piece in each:
                parts[piece.document] = parts.get(piece.document, 0) + 1
        divided = sum(number > 1 for number in parts.values())
        if divided:
            self.count("documents in several sequences", divided)


def _join(
    column: pa.ListArray,
    lengths: np.ndarray[tuple[int], np.dtype[np.int64]],
    sequences: Sequence[Sequence[SequencePiece]],
    padding: Sequence[int],
    filler: int,
) -> pa.Array:
    """Return the values of each sequence, in the type of the rows' values."""
    # `flatten` omits nulls, even if the buffer has values at the position of a null.
    tokens, kind = column.flatten().to_numpy(zero_copy_only=False), column.type.value_type
    begins = np.concatenate([[0], np.cumsum(lengths)])
    parts = []
    for pieces, number in zip(sequences, padding, strict=True):
        parts += [
            tokens[begins[document] + begin : begins[document] + end]
            for document, begin, end in pieces
        ]
        parts.append(np.full(number, filler, tokens.dtype))
    sizes = [_measure(pieces) + number for pieces, number in zip(sequences, padding, strict=True)]
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    values = pa.array(np.concatenate(parts), kind)
    joined = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values)
    # Join with 64-bit offsets: the cast fails if the result exceeds 32 bits.
    return joined.cast(pa.list_(kind))


def _find_lists(
    table: pa.Table, name: str, what: str, is_right: Callable[[pa.DataType], bool]
) -> pa.ListArray:
    column = find_column(table, name).combine_chunks()
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not is_right(kind.value_type):
        msg = f"the column {name!r} holds {kind}, not lists of {what}"
        raise TypeError(msg)
    return column


def _measure(pieces: Sequence[SequencePiece]) -> int:
    return sum(piece.end - piece.begin for piece in pieces)
