"""Base class of stages that gather samples of rows for each outcome, for `strandline report`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

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
from strandline_packs.images.sampling.samples import (
    SHOWN_KIND,
    ClipSample,
    SampledClip,
    choose_clip,
    draw_samples,
    list_rows,
)

NAME = "clip-outcomes"
SCHEMA = pa.schema(
    [("outcome", pa.string()), ("clips", pa.int64()), ("shown", pa.list_(SHOWN_KIND))]
)


class SampledOutcomes(StatefulFilter):
    """A stage that counts rows by outcome, and shows some rows of each outcome."""

    def setup(self) -> None:
        """Start with empty counts, and import the library of pictures if clips are shown."""
        self._gathered: dict[str, ClipSample] = {}
        if self.is_showing:
            load_pillow("Image")

    @property
    def is_showing(self) -> bool:
        """Return True if clips are shown; otherwise, they are only counted."""
        return True

    @abstractmethod
    def list_clips(self, table: pa.Table) -> list[str]:
        """Return the name of each row's clip."""

    @abstractmethod
    def show_clip(self, table: pa.Table, name: str) -> SampledClip:
        """Return the clip of a row.

        Args:
            table: a table of this row alone.
        """

    def gather_samples(self, table: pa.Table, outcomes: Sequence[str]) -> None:
        """Count all rows by outcome, and select a row of each outcome.

        Args:
            outcomes: the outcome of each row.
        """
        names = self.list_clips(table) if self.is_showing else []
        for outcome in dict.fromkeys(outcomes):
            rows = [at for at, each in enumerate(outcomes) if each == outcome]
            shown: tuple[SampledClip, ...] = ()
            if names:
                at = rows[choose_clip(names[row] for row in rows)]
                shown = (self.show_clip(table.slice(at, 1), names[at]),)
            gather(self._gathered, outcome, ClipSample(len(rows), shown))

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, ClipSample.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `clip-outcomes.json` and `.parquet`: a row for each outcome."""
        write_rows(folder, NAME, list_rows(read_piece(merged, ClipSample.parse)), SCHEMA)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:
        return draw_samples(read_rows(artifacts, NAME)) or None
