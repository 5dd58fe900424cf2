"""The stage `filter-text-quality`: rules of the Gopher and C4 corpora, each with its counter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.plan.registry import register
from strandline.stages.columns import list_strings
from strandline.stages.tables.rows.row_filter import JudgedRows, RowFilter
from strandline.stages.text.filters.words.scripts import ProseMeasure, applies, name_skipped
from strandline.stages.text.filters.words.stop_words import STOP_WORDS
from strandline.stages.text.text_quality import TextMeasures, count_stop_words, measure_text


@register("filter-text-quality")
class FilterTextQuality(RowFilter):
    """Keeps rows that read like prose. A row is counted under the first rule it breaks."""

    class Params(RowFilter.Params):
        """The rules."""

        column: str = Field(default="text", description="Column with the text.")
        language_column: str = Field(
            default="language",
            description="Column with the two-letter code that chooses the stop words; where the "
            "table has none, texts are taken for English.",
        )
        min_words: int = Field(default=50, ge=0, description="Fewest words.")
        max_words: int = Field(default=100_000, ge=1, description="Most words.")
        min_mean_word_length: float = Field(
            default=3.0,
            ge=0,
            description="Lowest mean word length; not where letters are syllables.",
        )
        max_mean_word_length: float = Field(
            default=10.0,
            gt=0,
            description="Highest mean word length; not where letters are syllables.",
        )
        max_symbol_ratio: float = Field(
            default=0.1, ge=0, description="Most `#` and ellipses per word."
        )
        min_letter_words: float = Field(
            default=0.8, ge=0, le=1, description="Lowest share of words that have a letter."
        )
        max_bullet_lines: float = Field(
            default=0.9, ge=0, le=1, description="Highest share of lines that start with a bullet."
        )
        max_ellipsis_lines: float = Field(
            default=0.3, ge=0, le=1, description="Highest share of lines that end in an ellipsis."
        )
        min_ended_lines: float = Field(
            default=0.1, ge=0, le=1, description="Lowest share of lines that end in punctuation."
        )
        max_repeated_lines: float = Field(
            default=0.3,
            ge=0,
            le=1,
            description="Highest share of lines that repeat an earlier one.",
        )
        min_stop_words: int = Field(
            default=2, ge=0, description="Fewest different stop words, in languages with a list."
        )
        phrases: tuple[str, ...] = Field(
            default=("lorem ipsum", "enable javascript", "javascript is disabled",
                     "javascript is required", "activate javascript"),
            description="Phrases, in any case, that give a text away as boilerplate.",
        )  # fmt: skip
        curly_brackets: bool = Field(
            default=False, description="Keep texts with `{` or `}`, which are mostly code."
        )

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop the rows that break a rule."""
        params = self.params
        texts = list_strings(table, params.column)
        has_language = params.language_column in table.column_names
        codes = list_strings(table, params.language_column) if has_language else ["en"] * len(texts)
        reasons = [
            next(self._find_reasons(text, code), None)
            for text, code in zip(texts, codes, strict=True)
        ]
        return JudgedRows(table, reasons)

    def _find_reasons(self, text: str, language: str) -> Iterator[str]:
        measures = measure_text(text)
        yield from self._judge_words(measures)
        yield from self._judge_lines(measures)
        stop_words = count_stop_words(text, language)
        if stop_words is None and language in STOP_WORDS:
            self.count(name_skipped(ProseMeasure.STOP_WORDS, measures.script))
        if stop_words is not None and stop_words < self.params.min_stop_words:
            yield "few stop words"
        lowered = text.lower()
        if any(phrase.lower() in lowered for phrase in self.params.phrases):
            yield "boilerplate phrase"
        if not self.params.curly_brackets and ("{" in text or "}" in text):
            yield "curly brackets"

    def _judge_words(self, measures: TextMeasures) -> Iterator[str]:
        bounds = self.params
        if measures.words < bounds.min_words:
            yield "too few words"
        if measures.words > bounds.max_words:
            yield "too many words"
        if applies(ProseMeasure.WORD_LENGTH, measures.script, self.count):
            if measures.mean_word_length < bounds.min_mean_word_length:
                yield "short words"
            if measures.mean_word_length > bounds.max_mean_word_length:
                yield "long words"
        if measures.symbol_ratio > bounds.max_symbol_ratio:
            yield "many symbols"
        if measures.letter_words < bounds.min_letter_words:
            yield "few words with letters"

    def _judge_lines(self, measures: TextMeasures) -> Iterator[str]:
        bounds = self.params
        if measures.bullet_lines > bounds.max_bullet_lines:
            yield "mostly bullets"
        if measures.ellipsis_lines > bounds.max_ellipsis_lines:
            yield "many ellipses"
        has_stops = applies(ProseMeasure.STOPS, measures.script, self.count)
        if has_stops and measures.ended_lines < bounds.min_ended_lines:
            yield "lines without punctuation"
        if measures.repeated_lines > bounds.max_repeated_lines:
            yield "repeated lines"
