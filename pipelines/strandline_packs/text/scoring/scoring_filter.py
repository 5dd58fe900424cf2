"""Base class of stages that score texts with a model, add the scores, and drop texts.

Subclasses load the model, name the columns, and judge the scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from strandline.data.tables.columns import list_strings, set_column
from strandline.data.tables.row_filter import JudgedRows
from strandline.data.tables.rules import Rule
from strandline.plan.stages.columns import Columns
from strandline_packs.models.model_files import ModelFileParams, find_model
from strandline_packs.text.filters.document_filter import DocumentFilter, FilterAnswer


class ScoringFilter(DocumentFilter):
    """Adds the scores of a model to documents, and drops documents by their scores."""

    class Params(ModelFileParams, DocumentFilter.Params):
        """Configures the model."""

    params: Params
    changes_rows = True  # a score may replace an existing column

    @abstractmethod
    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        """List the name and type of each column that gets a score."""

    @abstractmethod
    def _score_all(self, texts: Sequence[str]) -> Iterable[Sequence[Any]]:
        """Return the scores of each text: first the added columns, then scores only for judging.

        The method receives all texts of a task, so that a model can process them in batches.
        """

    @abstractmethod
    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        """Return the reason to drop a text with these scores, or None to keep the text."""

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the model and its additional files."""
        return self.params.digests

    def change_columns(self, columns: Columns) -> Columns:
        names = [name for name, _ in self._list_score_columns()]
        return super().change_columns(columns.having(names))

    def setup_on_node(self) -> None:
        """Copy the model to the node's disk if the parameters name a URL."""
        self._find_model()

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Score every row, and drop or mark rows with unwanted scores."""
        scored = list(self._score_all(list_strings(table, self.params.column)))
        for index, (name, kind) in enumerate(self._list_score_columns()):
            table = set_column(table, name, [scores[index] for scores in scored], kind)
        self._scored = scored
        return super().judge_rows(table)

    def _list_judges(self, table: pa.Table) -> Iterable[Callable[[str], FilterAnswer]]:  # noqa: ARG002 - the rows are those of the scores
        return [partial(self._judge_scored, scores) for scores in self._scored]

    def _judge_scored(self, scores: Sequence[Any], text: str) -> FilterAnswer:
        measures = self._measure_scores(scores) if self.params.mark else {}
        return FilterAnswer(self._judge_scores(scores), text, measures)

    def _measure_scores(self, scores: Sequence[Any]) -> dict[str, float | None]:  # noqa: ARG002 - subclasses use it
        """Return the measures that are not among the columns. The default is none."""
        return {}

    def _find_model(self) -> Path:
        return find_model(self.params.model, self.params.digest, Path(self.params.model).suffix)


def list_bounds(
    least: float | None, most: float | None, name: str, column: str
) -> tuple[Rule, Rule]:
    """Return the rules of `judge_bounds`, with parameter names derived from `name`."""
    title = name.title()
    return (
        Rule(f"low {name}", column, f"min{title}", least, is_least=True, is_column=True),
        Rule(f"high {name}", column, f"max{title}", most, is_column=True),
    )


def judge_bounds(
    score: float | None, least: float | None, most: float | None, name: str
) -> str | None:
    """Return the reason to drop a text by the limits of its score, or None to keep the text.

    A text without a score is dropped if a limit is set.
    """
    if score is None:
        return None if least is None and most is None else "no text"
    if least is not None and score < least:
        return f"low {name}"
    return f"high {name}" if most is not None and score > most else None
