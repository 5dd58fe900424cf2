"""What stages that score texts by a model have in common: the model, columns of scores, reasons.

A subclass loads the model, says which columns the scores get, and judges by them.
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
    """Adds scores of a model to documents, and drops them by these."""

    class Params(ModelFileParams, DocumentFilter.Params):
        """Which model."""

    params: Params
    changes_rows = True  # the score may take the place of a column

    @abstractmethod
    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        """List the name and type of each column that gets a score."""

    @abstractmethod
    def _score_all(self, texts: Sequence[str]) -> Iterable[Sequence[Any]]:
        """Return the scores of each text: a value for each of these columns, then what else judges.

        It is given the texts of a task, so that a model may take several of them at once.
        """

    @abstractmethod
    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        """Return why a text with these scores is dropped; None where it is kept."""

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model, and of what else is beside it."""
        return self.params.digests

    def change_columns(self, columns: Columns) -> Columns:
        names = [name for name, _ in self._list_score_columns()]
        return super().change_columns(columns.having(names))

    def setup_on_node(self) -> None:
        """Copy a model that a URL names to the node's disk."""
        self._find_model()

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Score every row; drop, or mark, those whose scores are not wanted."""
        scored = list(self._score_all(list_strings(table, self.params.column)))
        for index, (name, kind) in enumerate(self._list_score_columns()):
            table = set_column(table, name, [scores[index] for scores in scored], kind)
        self._scored = scored
        return super().judge_rows(table)

    def _list_judges(self, table: pa.Table) -> Iterable[Callable[[str], FilterAnswer]]:  # noqa: ARG002 - the rows are those that were scored
        return [partial(self._judge_scored, scores) for scores in self._scored]

    def _judge_scored(self, scores: Sequence[Any], text: str) -> FilterAnswer:
        measures = self._measure_scores(scores) if self.params.mark else {}
        return FilterAnswer(self._judge_scores(scores), text, measures)

    def _measure_scores(self, scores: Sequence[Any]) -> dict[str, float | None]:  # noqa: ARG002 - for subclasses
        """Return measures that are no columns already; by default none."""
        return {}

    def _find_model(self) -> Path:
        return find_model(self.params.model, self.params.digest, Path(self.params.model).suffix)


def list_bounds(
    least: float | None, most: float | None, name: str, column: str
) -> tuple[Rule, Rule]:
    """List the rules of `judge_bounds`, whose parameters are called as `name` is."""
    title = name.title()
    return (
        Rule(f"low {name}", column, f"min{title}", least, is_least=True, is_column=True),
        Rule(f"high {name}", column, f"max{title}", most, is_column=True),
    )


def judge_bounds(
    score: float | None, least: float | None, most: float | None, name: str
) -> str | None:
    """Return why a text with a score is dropped, by bounds that are allowed; None where it is kept.

    A text without a score is dropped where there is a bound.
    """
    if score is None:
        return None if least is None and most is None else "no text"
    if least is not None and score < least:
        return f"low {name}"
    return f"high {name}" if most is not None and score > most else None
