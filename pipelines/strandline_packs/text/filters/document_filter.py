"""Base classes of document filters: the text column, its splitting, and reasons for dropping.

Subclasses name their reasons as datatrove does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, Field, model_validator
from pydantic.alias_generators import to_camel

from strandline.data.tables.columns import list_strings, set_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Measured, RowVerdict, Rule
from strandline_packs.text.filters.splitting import (
    PACKAGES,
    Splitter,
    Splitting,
    load_splitter,
)
from strandline_packs.text.filters.words.scripts import LATIN, find_script
from strandline_packs.text.filters.words.word_rules import compose


class FilterAnswer(NamedTuple):
    """Decision of a filter about a text.

    Attributes:
        reason: reason for dropping the text, or None to keep the text.
        text: the text, which the filter may have changed.
        measures: measures that become columns.
    """

    reason: str | None
    text: str
    measures: Mapping[str, float | None] = {}


class DocumentFilter(RowFilter):
    """Drops documents. The first reason found for a document counts."""

    class Params(RowFilter.Params):
        """Parameters of all document filters."""

        column: str = Field(default="text", description="Column with the text.")

    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge(self, text: str) -> FilterAnswer:
        """Judge one text. The default keeps the text unchanged."""
        prepared = self._prepare(text)
        reason = self._find_reason(prepared)
        if reason is not None:
            return FilterAnswer(reason, text)
        verdict = self._apply_rules(self._measure(prepared))
        return FilterAnswer(verdict.reason, text, verdict.measures)

    def _prepare(self, text: str) -> str:
        """Return the text to measure. The default is the text itself."""
        return text

    def _find_reason(self, text: str) -> str | None:
        """Return a reason to drop the text without measuring it. The default is None."""

    def _measure(self, text: str) -> Iterable[Measured]:
        """Yield the measures for the rules in order; None skips a rule."""
        raise NotImplementedError

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop or mark the rows with a text that breaks a rule."""
        params = self.params
        texts = list_strings(table, params.column)
        judged = [judge(text) for text, judge in zip(texts, self._list_judges(table), strict=True)]
        if self.changes_rows:
            kind = table.schema.field(params.column).type
            table = set_column(table, params.column, [each.text for each in judged], kind)
        verdicts = [RowVerdict(each.reason, each.measures) for each in judged]
        reasons = [each.reason for each in judged]
        return JudgedRows(table, reasons, spread_measures(verdicts))

    def _list_judges(self, table: pa.Table) -> Iterable[Callable[[str], FilterAnswer]]:
        """Return a function for each row that judges the text. The default is `judge`."""
        return repeat(self.judge, table.num_rows)


class PresetParams(BaseModel):
    """Limits by language. Explicit parameters override them."""

    preset: str | None = Field(
        default=None,
        description="Limits of FineWeb-2 for a language, by its name there, such as `jpn_Jpan` or "
        "`deu_Latn`. Other parameters override them.",
    )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: object) -> object:
        name = values.get("preset") if isinstance(values, Mapping) else None
        if not (isinstance(values, Mapping) and isinstance(name, str)):
            return values
        limits = cls._find_limits(name)
        for field in tuple(limits):
            alias = cls.model_fields[field].alias or field
            if alias in values or field in values:
                del limits[field]
        return {**limits, **values}

    @classmethod
    def _find_limits(cls, name: str) -> dict[str, Any]:
        """Return the limits of a preset, by the names of parameters."""
        raise NotImplementedError


class SplittingFilter(DocumentFilter):
    """Base class of filters that examine words or sentences."""

    class Params(DocumentFilter.Params):
        """Configures the splitting rules, in addition to the parameters of all document filters."""

        splitting: Splitting = Field(
            default=Splitting.RULES,
            description="How to split words and sentences: `rules` uses built-in rules, which are "
            "fast and support all scripts; `spacy` and `nltk` use the rules of these "
            "packages.",
        )
        language: str = Field(
            default="en",
            pattern="^[a-z]{2,3}$",
            description=(
                "Code of the texts' language, which selects spaCy's rules and the stop words."
            ),
        )
        compatible: bool = Field(
            default=False, description="Repeat datatrove's decisions, including its mistakes."
        )

    params: Params

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """The package that splits texts."""
        return PACKAGES[self.params.splitting]

    def setup(self) -> None:
        """Load the splitter."""
        self._splitter: Splitter = load_splitter(self.params.splitting, self.params.language)

    def _prepare(self, text: str) -> str:
        """Return the text to count. Only datatrove counts combining accents as characters."""
        return text if self.params.compatible else compose(text)

    def _find_script(self, text: str) -> str:
        """Return the script that selects the rules. For datatrove, all scripts count as Latin."""
        return LATIN if self.params.compatible else find_script(text)

    def _read_limit(self, limit: float | None) -> float | None:
        """Return the limit of a rule, or None if the rule is off.

        In datatrove, a limit of 0 disables the rule.
        """
        return (limit or None) if self.params.compatible else limit

    def _limit(
        self,
        reason: str,
        measure: str,
        field: str,
        *,
        is_least: bool = False,
        is_count: bool = False,
    ) -> Rule:
        """Return the rule with the limit from the parameter `field`."""
        limit = self._read_limit(getattr(self.params, field))
        return Rule(reason, measure, to_camel(field), limit, is_least, is_count)
