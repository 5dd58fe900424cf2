"""The stage `sample-rows`: keeps a share of the rows, selected by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Rule

_BITS = 53  # number of bits that a float represents exactly


class SampleRows(RowFilter):
    """Keeps a share of the rows by a digest of their keys.

    A larger sample contains all smaller samples with the same seed.
    """

    class Params(RowFilter.Params):
        """Configures the share, and the column that determines which rows are kept."""

        rate: float = Field(
            ge=0,
            le=1,
            description="Probability of keeping each row; about this share of the rows stays.",
        )
        column: str = Field(
            default="key",
            min_length=1,
            description="Column that determines the draw; rows with the same value stay together.",
        )
        seed: int = Field(default=0, description="A different seed keeps different rows.")

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows that are not selected.

        Raises:
            MissingColumnError: the column is missing.
            TypeError: the column has values that can't be converted to text.
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
    """Return a number above 0 and up to 1, determined only by a key and a seed."""
    # Separate seed and key with a line end: otherwise (1, "2a") and (12, "a") would give the same
    # number.
    state = blake2b(f"{seed}\n".encode(), digest_size=8)
    state.update(key.encode("utf-8", "surrogatepass"))
    number = int.from_bytes(state.digest(), "big") >> (64 - _BITS)
    # Add 1, so that the result is above 0 and a rate of 0 keeps no row.
    return (number + 1) / (1 << _BITS)
