"""The stage `count-languages`: counts the documents in each language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from strandline.data.statistics.moments import Moments
from strandline.data.tables.charts import draw_bars
from strandline.data.tables.columns import list_strings, list_texts
from strandline.data.tables.summaries import (
    dump_piece,
    gather,
    merge_pieces,
    read_piece,
    read_rows,
    write_rows,
)
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task

NAME = "language-counts"
SCHEMA = pa.schema(
    [("language", pa.string()), ("documents", pa.int64()), ("characters", pa.int64())]
)
_MOST_BARS = 30


class CountLanguages(StatefulFilter):
    """Counts documents and characters per language, using the names from `identify-language`."""

    class Params(StatefulFilter.Params):
        """Names the columns with the language and the text."""

        column: str = Field(default="language", description="Column with the language.")
        text_column: str = Field(default="text", description="Column with the text.")

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column, self.params.text_column)

    def setup(self) -> None:
        """Start with empty counts."""
        self._gathered: dict[str, Moments] = {}

    def process(self, task: Task) -> Task:
        """Count every row under its language. A row without a language counts under the empty name.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or the language column has no names.
        """
        languages = list_texts(task.table, self.params.column)
        texts = list_strings(task.table, self.params.text_column)
        lengths: dict[str, list[int]] = {}
        for language, text in zip(languages, texts, strict=True):
            lengths.setdefault(language, []).append(len(text))
        for language, numbers in lengths.items():
            gather(self._gathered, language, Moments.from_numbers(numbers))
        return task

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, Moments.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `language-counts.json` and `.parquet`, the most frequent language first."""
        found = read_piece(merged, Moments.parse).items()
        # Break ties by name, so that the files depend on the counts only.
        rows = [
            {"language": name, "documents": each.count, "characters": int(each.total)}
            for name, each in sorted(found, key=lambda item: (-item[1].count, item[0]))
        ]
        write_rows(folder, NAME, rows, SCHEMA)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:
        rows = read_rows(artifacts, NAME)
        if not rows:
            return None
        shown = {row["language"] or "(none)": row["documents"] for row in rows[:_MOST_BARS]}
        left = f", the {_MOST_BARS} most frequent" if len(rows) > _MOST_BARS else ""
        return draw_bars(f"Documents in {len(rows):,} languages{left}", shown)
