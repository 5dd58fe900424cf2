"""The stage `measure-fields`: gathers statistics of the columns of all rows.

Rows stay unchanged. Sums, histograms, and counts are exact; quantiles and distinct values come from
sketches of the library datasketches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.statistics.fields import FieldKind, FieldSummary
from strandline.data.statistics.histogram import GROWING, EvenBins
from strandline.data.statistics.sketches import RANKS
from strandline.data.tables.charts import draw_histogram, format_number
from strandline.data.tables.columns import find_column, holds_text
from strandline.data.tables.summaries import (
    BINS,
    dump_piece,
    gather,
    list_bins,
    merge_pieces,
    read_piece,
    read_rows,
    write_rows,
)
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task

NAME = "field-statistics"
SCHEMA = pa.schema(
    [("field", pa.string()), ("kind", pa.string())]
    + [(name, pa.int64()) for name in ("rows", "nulls", "not_finite")]
    + [(name, pa.float64()) for name in ("min", "max", "mean", "deviation", *RANKS)]
    + [("distinct", pa.int64()), ("histogram", BINS)]
)
_BINS = 32


class MeasureFields(StatefulFilter):
    """Gathers rows, nulls, range, mean, quantiles, distinct values and a histogram of fields."""

    class Params(StatefulFilter.Params):
        """Configures the fields to measure, and the bounds of their histograms."""

        columns: tuple[str, ...] | None = Field(
            default=None,
            min_length=1,
            description="Columns of numbers, booleans or text to measure; all such columns when "
            "unset. For text, the length in characters is measured.",
        )
        ranges: dict[str, tuple[float, float]] = Field(
            default={},
            description=f"Columns whose histogram has {_BINS} even bins from one number to "
            "another, such as `age: [0, 100]`. The others have four bins to each doubling.",
        )

        @field_validator("ranges")
        @classmethod
        def _check_ranges(
            cls, ranges: dict[str, tuple[float, float]]
        ) -> dict[str, tuple[float, float]]:
            for name, (low, high) in ranges.items():
                if not low < high:
                    msg = f"the range of {name!r} must be increasing, not from {low:g} to {high:g}"
                    raise ValueError(msg)
                if not math.isfinite(high - low):
                    msg = f"the range of {name!r} must be finite, not from {low:g} to {high:g}"
                    raise ValueError(msg)
            return ranges

    version = "3"
    params: Params
    packages: ClassVar[tuple[str, ...]] = ("datasketches",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns or ()

    def setup(self) -> None:
        """Start with empty statistics, and import the library."""
        FieldSummary.from_values([])
        self._gathered: dict[str, FieldSummary] = {}

    def process(self, task: Task) -> Task:
        """Measure the fields of a task's rows.

        Raises:
            MissingColumnError: a named column is missing.
            TypeError: a named column has neither numbers nor text.
        """
        for name, kind, values in self._list_fields(task.table):
            low_high = self.params.ranges.get(name)
            bins = EvenBins(*low_high, _BINS) if low_high else GROWING
            gather(
                self._gathered,
                _format_key(kind, low_high, name),
                FieldSummary.from_values(values, bins),
            )
        return task

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, FieldSummary.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `field-statistics.json` and `.parquet`, with a row for each field."""
        rows = []
        for key, summary in _merge_empty(read_piece(merged, FieldSummary.parse)).items():
            kind, name = _parse_key(key)
            # Without named columns, omit columns without values: their real type may be
            # unmeasurable.
            if kind == FieldKind.EMPTY and self.params.columns is None:
                continue
            head = {"field": name, "kind": kind}
            rows.append(head | summary.describe() | {"histogram": list_bins(summary.histogram)})
        write_rows(folder, NAME, sorted(rows, key=lambda row: str(row["field"])), SCHEMA)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:
        charts = []
        for row in read_rows(artifacts, NAME):
            what = "characters" if row["kind"] == FieldKind.TEXT else "values"
            mean = format_number(row["mean"])
            title = (
                f"{row['field']}: {what} of {row['rows']:,} rows, {row['nulls']:,} empty, "
                f"about {row['distinct']:,} different, mean {mean}"
            )
            charts.append(draw_histogram(title, row["histogram"]))
        return "".join(charts) or None

    def _list_fields(
        self, table: pa.Table
    ) -> Iterator[tuple[str, FieldKind, list[float | str | None]]]:
        names = self.params.columns
        for name in table.column_names if names is None else names:
            column = find_column(table, name)
            kind = find_kind(column.type)
            if kind is not None:
                is_bool = pa.types.is_boolean(column.type)
                # Booleans are measured as 0 and 1.
                plain = column.cast(pa.int8()) if is_bool else column
                if pa.types.is_decimal(column.type):
                    plain = column.cast(pa.float64())
                yield name, kind, plain.to_pylist()
            elif names is not None:
                msg = f"the column {name!r} holds {column.type}, neither numbers nor text"
                raise TypeError(msg)


def find_kind(kind: pa.DataType) -> FieldKind | None:
    """Return the kind of an Arrow type, or None for unmeasured types."""
    if pa.types.is_dictionary(kind):
        return find_kind(kind.value_type)
    if holds_text(kind):
        return FieldKind.TEXT
    if pa.types.is_null(kind):
        return FieldKind.EMPTY
    is_number = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )
    return FieldKind.NUMBER if is_number else None


def _format_key(kind: FieldKind, low_high: tuple[float, float] | None, name: str) -> str:
    # Histograms with different bins can't be merged, so a changed range starts a new summary.
    return f"{' '.join([kind, *map(repr, low_high or ())])}:{name}"


def _parse_key(key: str) -> tuple[str, str]:
    """Return the kind and the name of a field."""
    head, _, name = key.partition(":")
    return head.partition(" ")[0], name


def _merge_empty(found: dict[str, FieldSummary]) -> dict[str, FieldSummary]:
    """Merge rows of tasks with an empty field into the kind of that field in other tasks."""
    merged = dict(found)
    for key in found:
        if _parse_key(key)[0] == FieldKind.EMPTY:
            rest = key.removeprefix(FieldKind.EMPTY)
            known = [
                kind + rest for kind in (FieldKind.NUMBER, FieldKind.TEXT) if kind + rest in found
            ]
            if known:
                merged[known[0]] += merged.pop(key)
    return merged
