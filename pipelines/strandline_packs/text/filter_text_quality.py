"""The stage `filter-text-quality`: applies rules of the Gopher and C4 corpora.

Each rule has a counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pydantic import Field
from pydantic.alias_generators import to_camel

from strandline.data.tables.columns import list_strings
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Measured, Rule
from strandline_packs.text.filters.words.scripts import ProseMeasure, applies, name_skipped
from strandline_packs.text.filters.words.stop_words import STOP_WORDS
from strandline_packs.text.text_quality import count_stop_words, measure_text


class FilterTextQuality(RowFilter):
    """Keeps rows that read like prose. A dropped row counts under the first rule it breaks."""

    class Params(RowFilter.Params):
        """Configures the rules."""

        column: str = Field(default="text", description="Column with the text.")
        language_column: str = Field(
            default="language",
            description="Column with the two-letter code that selects the stop words; without the "
            "column, texts are treated as English.",
        )
        min_words: int = Field(default=50, ge=0, description="Minimum number of words.")
        max_words: int = Field(default=100_000, ge=1, description="Maximum number of words.")
        min_mean_word_length: float = Field(
            default=3.0,
            ge=0,
            description=(
                "Minimum mean word length; not used for scripts whose letters are syllables."
            ),
        )
        max_mean_word_length: float = Field(
            default=10.0,
            gt=0,
            description=(
                "Maximum mean word length; not used for scripts whose letters are syllables."
            ),
        )
        max_symbol_ratio: float = Field(
            default=0.1, ge=0, description="Maximum number of `#` and ellipses per word."
        )
        min_letter_words: float = Field(
            default=0.8, ge=0, le=1, description="Minimum share of words that have a letter."
        )
        max_bullet_lines: float = Field(
            default=0.9, ge=0, le=1, description="Maximum share of lines that start with a bullet."
        )
        max_ellipsis_lines: float = Field(
            default=0.3, ge=0, le=1, description="Maximum share of lines that end in an ellipsis."
        )
        min_ended_lines: float = Field(
            default=0.1, ge=0, le=1, description="Minimum share of lines that end in punctuation."
        )
        max_repeated_lines: float = Field(
            default=0.3,
            ge=0,
            le=1,
            description="Maximum share of lines that repeat an earlier one.",
        )
        min_stop_words: int = Field(
            default=2,
            ge=0,
            description="Minimum number of different stop words, in languages with a list.",
        )
        phrases: tuple[str, ...] = Field(
            default=("lorem ipsum", "enable javascript", "javascript is disabled",
                     "javascript is required", "activate javascript"),
            description="Phrases, in any case, that identify a text as boilerplate.",
        )  # fmt: skip
        curly_brackets: bool = Field(
            default=False, description="Keep texts with `{` or `}`, which are mostly code."
        )

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def list_rules(self) -> Sequence[Rule]:
        params = self.params

        def limit(reason: str, measure: str, field: str, *, is_count: bool = False) -> Rule:
            value = getattr(params, field)
            return Rule(reason, measure, to_camel(field), value, field[:3] == "min", is_count)

        curly = None if params.curly_brackets else 0
        return (
            limit("too few words", "words", "min_words", is_count=True),
            limit("too many words", "words", "max_words", is_count=True),
            limit("short words", "mean_word_length", "min_mean_word_length"),
            limit("long words", "mean_word_length", "max_mean_word_length"),
            limit("many symbols", "symbol_ratio", "max_symbol_ratio"),
            limit("few words with letters", "letter_words", "min_letter_words"),
            limit("mostly bullets", "bullet_lines", "max_bullet_lines"),
            limit("many ellipses", "ellipsis_lines", "max_ellipsis_lines"),
            limit("lines without punctuation", "ended_lines", "min_ended_lines"),
            limit("repeated lines", "repeated_lines", "max_repeated_lines"),
            limit("few stop words", "stop_words", "min_stop_words", is_count=True),
            Rule("boilerplate phrase", "phrases", "", 0, is_count=True),
            Rule("curly brackets", "curly_brackets", "", curly, is_count=True),
        )

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop the rows that break a rule."""
        params = self.params
        texts = list_strings(table, params.column)
        has_language = params.language_column in table.column_names
        codes = list_strings(table, params.language_column) if has_language else ["en"] * len(texts)
        verdicts = [
            self._apply_rules(self._measure(text, code))
            for text, code in zip(texts, codes, strict=True)
        ]
        reasons = [verdict.reason for verdict in verdicts]
        return JudgedRows(table, reasons, spread_measures(verdicts))

    def _measure(self, text: str, language: str) -> Iterator[Measured]:
        measures = measure_text(text)
        script = measures.script
        yield "words", measures.words
        has_length = applies(ProseMeasure.WORD_LENGTH, script, self.count)
        yield "mean_word_length", measures.mean_word_length if has_length else None
        yield "symbol_ratio", measures.symbol_ratio
        yield "letter_words", measures.letter_words
        yield "bullet_lines", measures.bullet_lines
        yield "ellipsis_lines", measures.ellipsis_lines
        has_stops = applies(ProseMeasure.STOPS, script, self.count)
        yield "ended_lines", measures.ended_lines if has_stops else None
        yield "repeated_lines", measures.repeated_lines
        stop_words = count_stop_words(text, language)
        if stop_words is None and language in STOP_WORDS:
            self.count(name_skipped(ProseMeasure.STOP_WORDS, script))
        yield "stop_words", stop_words
        lowered = text.lower()
        yield "phrases", sum(phrase.lower() in lowered for phrase in self.params.phrases)
        yield "curly_brackets", text.count("{") + text.count("}")
