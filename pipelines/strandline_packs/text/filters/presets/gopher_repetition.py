"""The stage `gopher-repetition`: drops repetitive texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import Field

from strandline.data.tables.rules import Measured, Rule
from strandline_packs.text.filters.document_filter import PresetParams, SplittingFilter
from strandline_packs.text.filters.presets.fineweb_2 import find_repetition_limits
from strandline_packs.text.filters.repetition import (
    count_repeats,
    measure_ngrams,
    name_repeated,
    name_top,
)

_PARAGRAPHS = re.compile(r"\n{2,}")
_LINES = re.compile(r"\n+")


class GopherRepetition(SplittingFilter):
    """Drops texts with repeated lines, paragraphs or n-grams, by the rules of Gopher's table A1."""

    class Params(PresetParams, SplittingFilter.Params):
        """Configures the maximum shares. A rule without a limit is off."""

        dup_line_frac: float | None = Field(
            default=0.3, ge=0, description="Maximum share of lines that equal an earlier one."
        )
        dup_para_frac: float | None = Field(
            default=0.3,
            ge=0,
            description=(
                "Maximum share of paragraphs, separated by blank lines, that equal an earlier one."
            ),
        )
        dup_line_char_frac: float | None = Field(
            default=0.2, ge=0, description="Maximum share of characters in repeated lines."
        )
        dup_para_char_frac: float | None = Field(
            default=0.2, ge=0, description="Maximum share of characters in repeated paragraphs."
        )
        top_n_grams: dict[int, float] = Field(
            default={2: 0.2, 3: 0.18, 4: 0.16},
            description="By number of words: maximum share of characters in the most frequent "
            "n-gram, if it occurs at least twice.",
        )
        dup_n_grams: dict[int, float] = Field(
            default={5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10},
            description="By number of words: maximum share of characters in repeated n-grams.",
        )

        @classmethod
        def _find_limits(cls, name: str) -> dict[str, Any]:
            return find_repetition_limits(name)

    version = "2"
    added_params: ClassVar[frozenset[str]] = SplittingFilter.added_params | {"preset"}
    params: Params

    def list_rules(self) -> Sequence[Rule]:
        params = self.params
        shares = ("dup_para_frac", "dup_para_char_frac", "dup_line_frac", "dup_line_char_frac")
        return (
            *(self._limit(name, name, name) for name in shares),
            *(
                Rule(name_top(n), name_top(n), f"topNGrams.{n}", share)
                for n, share in params.top_n_grams.items()
            ),
            *(
                Rule(name_repeated(n), name_repeated(n), f"dupNGrams.{n}", share)
                for n, share in params.dup_n_grams.items()
            ),
        )

    def _find_reason(self, text: str) -> str | None:
        """Return a reason to drop an empty text."""
        return None if text else "empty"

    def _measure(self, text: str) -> Iterator[Measured]:
        params = self.params
        paragraphs = _PARAGRAPHS.split(text.strip())
        again = count_repeats(paragraphs)
        yield "dup_para_frac", again.items / len(paragraphs)
        yield "dup_para_char_frac", again.characters / len(text)
        lines = _LINES.split(text)
        again = count_repeats(lines)
        yield "dup_line_frac", again.items / len(lines)
        yield "dup_line_char_frac", again.characters / len(text)
        words = self._splitter.split_words(text)
        sizes = tuple(params.top_n_grams), tuple(params.dup_n_grams)
        yield from measure_ngrams(words, len(text), *sizes, compatible=params.compatible)
