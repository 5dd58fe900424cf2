"""The stage `gopher-repetition`: texts that say the same again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from strandline.plan.registry import register
from strandline.stages.text.filters.document_filter import PresetParams, SplittingFilter
from strandline.stages.text.filters.presets.fineweb_2 import find_repetition_limits
from strandline.stages.text.filters.repetition import (
    NgramRules,
    count_repeats,
    find_repeated_ngrams,
)

_PARAGRAPHS = re.compile(r"\n{2,}")
_LINES = re.compile(r"\n+")


@register("gopher-repetition")
class GopherRepetition(SplittingFilter):
    """Drops texts with repeated lines, paragraphs or n-grams, by the rules of Gopher's table A1."""

    class Params(PresetParams, SplittingFilter.Params):
        """Highest shares; without one the rule is off."""

        dup_line_frac: float | None = Field(
            default=0.3, ge=0, description="Highest share of lines that equal an earlier one."
        )
        dup_para_frac: float | None = Field(
            default=0.3, ge=0, description="The same of paragraphs, which blank lines separate."
        )
        dup_line_char_frac: float | None = Field(
            default=0.2, ge=0, description="Highest share of characters in repeated lines."
        )
        dup_para_char_frac: float | None = Field(
            default=0.2, ge=0, description="The same of repeated paragraphs."
        )
        top_n_grams: dict[int, float] = Field(
            default={2: 0.2, 3: 0.18, 4: 0.16},
            description="By number of words: highest share of characters in the n-gram that "
            "occurs most often, where it occurs twice at least.",
        )
        dup_n_grams: dict[int, float] = Field(
            default={5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10},
            description="By number of words: highest share of characters in repeated n-grams.",
        )

        @classmethod
        def _find_limits(cls, name: str) -> dict[str, Any]:
            return find_repetition_limits(name)

    version = "2"
    added_params: ClassVar[frozenset[str]] = SplittingFilter.added_params | {"preset"}
    params: Params

    def _find_reason(self, text: str) -> str | None:
        """Return the first rule that a text breaks."""
        if not text:
            return "empty"
        return next(self._find_line_reasons(text), None) or self._find_ngram_reason(text)

    def _find_line_reasons(self, text: str) -> Iterator[str]:
        params = self.params
        paragraphs = _PARAGRAPHS.split(text.strip())
        again = count_repeats(paragraphs)
        if self._exceeds(again.items / len(paragraphs), params.dup_para_frac):
            yield "dup_para_frac"
        if self._exceeds(again.characters / len(text), params.dup_para_char_frac):
            yield "dup_para_char_frac"
        lines = _LINES.split(text)
        again = count_repeats(lines)
        if self._exceeds(again.items / len(lines), params.dup_line_frac):
            yield "dup_line_frac"
        if self._exceeds(again.characters / len(text), params.dup_line_char_frac):
            yield "dup_line_char_frac"

    def _find_ngram_reason(self, text: str) -> str | None:
        words, params = self._splitter.split_words(text), self.params
        rules = NgramRules(params.top_n_grams, params.dup_n_grams)
        return find_repeated_ngrams(words, len(text), rules, compatible=params.compatible)
