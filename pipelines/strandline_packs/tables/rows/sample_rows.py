"""The stage `sample-rows`: a share of the rows, chosen by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Rule

_BITS = 53  # bits that a floating point number holds exactly


class SampleRows(RowFilter):
    """Keeps a share of the rows by a digest of their keys; a larger share contains a smaller."""

    class Params(RowFilter.Params):
        """How many, and by what."""

        rate: float = Field(
            ge=0, le=1, description="Share of the rows that is kept, about: each has that chance."
        )
        column: str = Field(
            default="key",
            min_length=1,
            description="Column with what decides; rows of the same value stay or go together.",
        )
        seed: int = Field(default=0, description="Another one keeps other rows.")

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows that are not drawn.

        Raises:
            MissingColumnError: there is no such column.
            TypeError: its values can't be written as text.
        """
        keys = list_texts(table, self.params.column)
        verdicts = [
            self._apply_rules([("draw", draw_share(key, self.params.seed))]) for key in keys
        ]
        reasons = [verdict.reason for verdict in verdicts]
        return JudgedRows(table, reasons, spread_measures(verdicts))

    def list_rules(self) -> Sequence[Rule]:
        return (Rule("not sampled", "draw", "rate", self.params.rate),)


def draw_share(key: str, seed: int) -> float:
    """Return a number above 0 and up to 1 that follows from a key and a seed alone."""
    state = blake2b(f"{seed}\n".encode(), digest_size=8)
    state.update(key.encode("utf-8", "surrogatepass"))
    number = int.from_bytes(state.digest(), "big") >> (64 - _BITS)
    return (number + 1) / (1 << _BITS)
