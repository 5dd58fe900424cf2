"""The stage `gopher-quality`: drops texts with words and lines unlike prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from strandline.data.tables.rules import Measured, Rule
from strandline_packs.text.filters.document_filter import PresetParams, SplittingFilter
from strandline_packs.text.filters.presets.fineweb_2 import find_quality_limits
from strandline_packs.text.filters.words.punctuation import LISTED_MARKS
from strandline_packs.text.filters.words.scripts import (
    ProseMeasure,
    applies,
    find_script,
    name_skipped,
)
from strandline_packs.text.filters.words.stop_words import STOP_WORDS
from strandline_packs.text.filters.words.word_rules import compose, has_letter, is_mark

_BULLETS = ("•", "-")
_ELLIPSES = ("...", "…")


class WordMeasures(NamedTuple):
    """Counts of a text's words.

    Attributes:
        total: number of words and punctuation marks.
        words: number of words.
        mean_length: mean length of the words in characters; 0 if there are no words.
        lettered: number of words and marks with a letter.
    """

    total: int
    words: int
    mean_length: float
    lettered: int


class GopherQuality(SplittingFilter):
    """Drops texts by Gopher's rules of quality: length, words, symbols, bullets, stop words."""

    class Params(PresetParams, SplittingFilter.Params):
        """Configures limits. A rule without a limit is off."""

        min_doc_words: int | None = Field(default=50, ge=0, description="Minimum number of words.")
        max_doc_words: int | None = Field(
            default=100_000, ge=0, description="Maximum number of words."
        )
        min_avg_word_length: float | None = Field(
            default=3, ge=0, description="Minimum mean length of words."
        )
        max_avg_word_length: float | None = Field(
            default=10, ge=0, description="Maximum mean length of words."
        )
        max_symbol_word_ratio: float | None = Field(
            default=0.1,
            ge=0,
            description="Maximum number of `#`, and of ellipses, per word or mark.",
        )
        max_bullet_lines_ratio: float | None = Field(
            default=0.9, ge=0, description="Maximum share of lines that begin with a bullet."
        )
        max_ellipsis_lines_ratio: float | None = Field(
            default=0.3, ge=0, description="Maximum share of lines that end in an ellipsis."
        )
        min_alpha_words_ratio: float | None = Field(
            default=0.8,
            ge=0,
            description="Minimum share of words and marks that have a letter; datatrove calls it "
            "`max_non_alpha_words_ratio`.",
        )
        min_stop_words: int | None = Field(
            default=2, ge=0, description="Minimum number of different stop words."
        )
        stop_words: tuple[str, ...] | None = Field(
            default=None,
            description="The stop words; by default those of the language. For languages without a "
            "list, the rule is off.",
        )

        @classmethod
        def _find_limits(cls, name: str) -> dict[str, Any]:
            return find_quality_limits(name)

    version = "2"
    added_params: ClassVar[frozenset[str]] = SplittingFilter.added_params | {"preset"}
    params: Params

    def setup(self) -> None:
        """Load the splitter and the stop words."""
        super().setup()
        words = self.params.stop_words
        words = STOP_WORDS.get(self.params.language, ()) if words is None else words
        self._stop_words = frozenset(words if self.params.compatible else map(compose, words))
        self._scripts = frozenset(map(find_script, self._stop_words))

    def list_rules(self) -> Sequence[Rule]:
        limit = self._limit
        symbols, ending = "max_symbol_word_ratio", "max_ellipsis_lines_ratio"
        short = "min_avg_word_length"
        return (
            limit("gopher_short_doc", "words", "min_doc_words", is_least=True, is_count=True),
            limit("gopher_long_doc", "words", "max_doc_words", is_count=True),
            limit("gopher_below_avg_threshold", "word_length", short, is_least=True),
            limit("gopher_above_avg_threshold", "word_length", "max_avg_word_length"),
            limit("gopher_too_many_hashes", "hash_ratio", symbols),
            limit("gopher_too_many_ellipsis", "ellipsis_ratio", symbols),
            limit("gopher_too_many_bullets", "bullet_lines", "max_bullet_lines_ratio"),
            limit("gopher_too_many_end_ellipsis", "ellipsis_lines", ending),
            limit("gopher_below_alpha_threshold", "alpha_words", "min_alpha_words_ratio",
                  is_least=True),
            limit("gopher_enough_stop_words", "stop_words", "min_stop_words",
                  is_least=True, is_count=True),
        )  # fmt: skip

    def _measure(self, text: str) -> Iterator[Measured]:
        words = Counter(self._splitter.split_words(text))
        measures = measure_words(words, compatible=self.params.compatible)
        yield "words", measures.words
        script = self._find_script(text)
        has_length = applies(ProseMeasure.WORD_LENGTH, script, self.count)
        yield "word_length", measures.mean_length if has_length else None
        total = measures.total or 1
        yield "hash_ratio", text.count("#") / total
        yield "ellipsis_ratio", sum(map(text.count, _ELLIPSES)) / total
        lines = text.splitlines()
        number = len(lines) or 1
        yield "bullet_lines", sum(line.lstrip().startswith(_BULLETS) for line in lines) / number
        yield "ellipsis_lines", sum(line.rstrip().endswith(_ELLIPSES) for line in lines) / number
        yield "alpha_words", measures.lettered / total
        yield "stop_words", self._count_stop_words(words, script)

    def _count_stop_words(self, words: Counter[str], script: str) -> int | None:
        stop_words = self._stop_words
        if not stop_words:
            return None
        if self.params.compatible or script in self._scripts:
            return len(stop_words & words.keys())
        # Skip the rule: English stop words, for example, cannot occur in a Russian text.
        self.count(name_skipped(ProseMeasure.STOP_WORDS, script))
        return None


def measure_words(words: Counter[str], *, compatible: bool = False) -> WordMeasures:
    """Measure words and marks, given their frequencies.

    Args:
        words: frequencies of the words of a text.
        compatible: identify marks by datatrove's list, which lacks bullets and arrows. Otherwise a
            mark is a word without letters and digits.
    """
    is_listed = LISTED_MARKS.issuperset if compatible else is_mark
    number = size = lettered = 0
    for word, count in words.items():
        if word.isalpha():  # the fast case for most words
            number += count
            size += count * len(word)
            lettered += count
            continue
        if not is_listed(word):
            number += count
            size += count * len(word)
        if has_letter(word):
            lettered += count
    return WordMeasures(words.total(), number, size / number if number else 0.0, lettered)
