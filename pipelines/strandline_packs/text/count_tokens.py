"""The stage `count-tokens`: counts the documents, characters, and tokens of a corpus.

The stage uses no model's tokenizer; it counts words as the quality filter does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from strandline.data.statistics.volume import TextVolume
from strandline.data.tables.charts import draw_histogram
from strandline.data.tables.columns import list_strings, list_texts
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
from strandline_packs.text.filters.words.word_rules import compose, list_words

NAME = "token-counts"
SCHEMA = pa.schema(
    [("group", pa.string())]
    + [(name, pa.int64()) for name in ("documents", "characters", "tokens")]
    + [(f"tokens_{name}", pa.float64()) for name in ("min", "max", "mean", "deviation")]
    + [("histogram", BINS)]
)


class Tokens(StrEnum):
    """Definition of a token."""

    WORDS = "words"
    WHITESPACE = "whitespace"


_SPLIT: dict[Tokens, Callable[[str], list[str]]] = {
    Tokens.WORDS: list_words,
    Tokens.WHITESPACE: str.split,
}


class CountTokens(StatefulFilter):
    """Gathers documents, characters and tokens of a text column, and a histogram of lengths."""

    class Params(StatefulFilter.Params):
        """Configures the columns and the groups to count."""

        column: str = Field(default="text", description="Column with the text.")
        tokens: Tokens = Field(
            default=Tokens.WORDS,
            description="`words`: runs of letters and digits of any script, and single letters in "
            "scripts without blanks. `whitespace`: parts separated by white space.",
        )
        by: str | None = Field(
            default=None,
            description="Column by whose values the counts are grouped, such as `language`.",
        )

    version = "2"
    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def setup(self) -> None:
        """Start with empty counts."""
        self._gathered: dict[str, TextVolume] = {}

    def process(self, task: Task) -> Task:
        """Count the tokens of every row.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or groups have an unsupported type.
        """
        texts = list_strings(task.table, self.params.column)
        by = self.params.by
        groups = [""] * len(texts) if by is None else list_texts(task.table, by)
        split = _SPLIT[self.params.tokens]
        counted: dict[str, list[tuple[int, int]]] = {}
        for group, text in zip(groups, texts, strict=True):
            shown = compose(text)
            counted.setdefault(group, []).append((len(shown), len(split(shown))))
        for group, pairs in counted.items():
            gather(self._gathered, group, TextVolume.from_counts(*zip(*pairs, strict=True)))
        return task

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, TextVolume.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `token-counts.json` and `.parquet`, with a row per group, or a single row."""
        rows = [
            {"group": group} | volume.describe() | {"histogram": list_bins(volume.histogram)}
            for group, volume in read_piece(merged, TextVolume.parse).items()
        ]
        write_rows(folder, NAME, rows, SCHEMA)

    @staticmethod
    def panel(artifacts: Sequence[Path]) -> str | None:
        charts = []
        for row in read_rows(artifacts, NAME):
            group = f"{row['group']}: " if row["group"] else ""
            title = (
                f"{group}tokens per document; {row['tokens']:,} in {row['documents']:,} documents"
            )
            charts.append(draw_histogram(title, row["histogram"]))
        return "".join(charts) or None
