"""The stage `filter-video`: keeps clips within limits, and gathers pictures of dropped clips.

The pictures help users to judge the limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, field_validator

from strandline.data.tables.columns import find_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline.data.tables.rules import Rule
from strandline.data.tables.summaries import (
    dump_piece,
    gather,
    merge_pieces,
    read_piece,
    read_rows,
    write_rows,
)
from strandline.plan.stages.stage import StatefulFilter
from strandline_packs.images.pictures import load_pillow
from strandline_packs.images.samples import (
    SHOWN,
    ClipSample,
    SampledClip,
    choose_clip,
    draw_jpeg,
    draw_samples,
    list_rows,
    rank_clip,
)

NAME = "clip-outcomes"
SCHEMA = pa.schema(
    [
        ("outcome", pa.string()),
        ("clips", pa.int64()),
        ("shown", pa.list_(pa.struct([("clip", pa.string()), ("jpeg", pa.string())]))),
    ]
)
KEPT = "kept"

_DEFAULT: dict[str, tuple[float | None, float | None]] = {
    "brightness": (0.05, 0.98),
    "black_share": (None, 0.5),
    "frozen_share": (None, 0.9),
}


class FilterVideo(RowFilter, StatefulFilter):
    """Keeps rows whose measures are within limits.

    A dropped row counts under the first broken limit. The stage gathers the number of kept and
    dropped clips by reason, with pictures of some clips.
    """

    class Params(RowFilter.Params):
        """Configures the limits, and whether to gather pictures."""

        bounds: dict[str, tuple[float | None, float | None]] = Field(
            default=_DEFAULT,
            min_length=1,
            description="Minimum and maximum of columns of numbers, in the order in which they are "
            "checked; null means no bound. Rows without a value are dropped.",
        )

        pictures: bool = Field(
            default=False,
            description=f"Gather small pictures from `frames`, up to {SHOWN} of the kept clips and "
            "of those dropped for each reason. They take some kilobytes per task, and "
            "the report shows them.",
        )

        @field_validator("bounds")
        @classmethod
        def _check(
            cls, bounds: dict[str, tuple[float | None, float | None]]
        ) -> dict[str, tuple[float | None, float | None]]:
            for name, (least, greatest) in bounds.items():
                if least is not None and greatest is not None and least > greatest:
                    msg = f"{name}: the minimum, {least:g}, is above the maximum, {greatest:g}"
                    raise ValueError(msg)
            return bounds

    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (*self.params.bounds, *(("clip", "frames") if self.params.pictures else ()))

    def setup(self) -> None:
        """Start with empty counts, and import the libraries."""
        self._gathered: dict[str, ClipSample] = {}
        if self.params.pictures:
            load_pillow("Image")

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
        self._gather(table, [f"dropped: {reason}" if reason else KEPT for reason in reasons])
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

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, ClipSample.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `clip-outcomes.json` and `.parquet`: a row for kept clips and for each reason."""
        write_rows(folder, NAME, list_rows(read_piece(merged, ClipSample.parse)), SCHEMA)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:
        return draw_samples(read_rows(artifacts, NAME)) or None

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

    def _gather(self, table: pa.Table, outcomes: Sequence[str]) -> None:
        for outcome in dict.fromkeys(outcomes):
            rows = [at for at, each in enumerate(outcomes) if each == outcome]
            shown = (self._show(table.take(rows)),) if self.params.pictures else ()
            gather(self._gathered, outcome, ClipSample(len(rows), shown))

    @staticmethod
    def _show(table: pa.Table) -> SampledClip:
        """Return a sample of one of the clips that share a task and an outcome."""
        names = [name or "" for name in find_column(table, "clip").cast(pa.string()).to_pylist()]
        at = choose_clip(names)
        frames = find_column(table, "frames").slice(at, 1).to_pylist()[0]
        return SampledClip(rank_clip(names[at]), names[at], draw_jpeg(frames or []))
