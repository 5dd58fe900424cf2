"""Base class of filters with a minimum and a maximum of columns, which show kept and dropped clips.

The pictures help users to judge the limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.tables.columns import find_column, list_texts
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline.data.tables.rules import Rule
from strandline_packs.images.sampling.sampled_outcomes import SampledOutcomes

Bounds = dict[str, tuple[float | None, float | None]]

BOUNDS_HELP = (
    "Minimum and maximum of columns of numbers, in the order in which they are checked; null means "
    "no bound. Rows without a value are dropped."
)
KEPT = "kept"


class LimitsFilter(RowFilter, SampledOutcomes):
    """Keeps rows whose measures are within limits.

    A dropped row counts under the first broken limit.
    """

    class Params(RowFilter.Params):
        """Configures the limits, and whether to show clips. Subclasses define what is shown."""

        bounds: Bounds = Field(min_length=1, description=BOUNDS_HELP)
        pictures: bool = False

        @field_validator("bounds")
        @classmethod
        def _check(cls, bounds: Bounds) -> Bounds:
            for name, (least, greatest) in bounds.items():
                if least is not None and greatest is not None and least > greatest:
                    msg = f"{name}: the minimum, {least:g}, is above the maximum, {greatest:g}"
                    raise ValueError(msg)
            return bounds

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    @property
    def is_showing(self) -> bool:
        return self.params.pictures

    def list_clips(self, table: pa.Table) -> list[str]:
        return list_texts(table, "clip")

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count the rows outside of the limits.

        Raises:
            MissingColumnError: a measure or the column with pictures is missing.
        """
        columns = {name: find_column(table, name).to_pylist() for name in self.params.bounds}
        reasons = [
            self._find_reason({name: values[at] for name, values in columns.items()})
            for at in range(table.num_rows)
        ]
        self.gather_samples(table, [f"dropped: {reason}" if reason else KEPT for reason in reasons])
        return JudgedRows(table, reasons)

    def list_rules(self) -> Sequence[Rule]:
        rules = []
        for name, (least, most) in self.params.bounds.items():
            at = f"bounds.{name}"
            rules += [
                Rule(f"no {name}", name, "", None, is_column=True, is_missing=True),
                Rule(f"{name} below", name, f"{at}.0", least, is_least=True, is_column=True),
                Rule(f"{name} above", name, f"{at}.1", most, is_column=True),
            ]
        return rules

    def _find_reason(self, measures: dict[str, Any]) -> str:
        """Return the reason to drop a row, or an empty string to keep the row."""
        for name, (least, greatest) in self.params.bounds.items():
            value = measures[name]
            if value is None or math.isnan(value):
                reason = f"no {name}"
            elif least is not None and value < least:
                reason = f"{name} below {least:g}"
            elif greatest is not None and value > greatest:
                reason = f"{name} above {greatest:g}"
            else:
                continue
            return reason
        return ""
