"""The stage `fineweb-quality`: lists, menus and pages that repeat lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from strandline.plan.registry import register
from strandline.stages.text.filters.document_filter import PresetParams, SplittingFilter
from strandline.stages.text.filters.presets.fineweb_2 import find_line_limits
from strandline.stages.text.filters.repetition import count_repeats
from strandline.stages.text.filters.words.punctuation import TERMINAL_MARKS
from strandline.stages.text.filters.words.scripts import ProseMeasure, applies


@register("fineweb-quality")
class FinewebQuality(SplittingFilter):
    """Drops texts by FineWeb's rules on lines: punctuation, length, repeats, words per line."""

    class Params(PresetParams, SplittingFilter.Params):
        """Bounds, by the names that datatrove has."""

        line_punct_thr: float = Field(
            default=0.12, ge=0, le=1, description="Lowest share of lines that end in a stop."
        )
        line_punct_exclude_zero: bool = Field(
            default=False, description="Keep texts of which no line does."
        )
        stop_chars: tuple[str, ...] | None = Field(
            default=None,
            description="What a line may end in; without them the marks of all scripts that end a "
            "sentence, quotes not among them.",
        )
        short_line_thr: float = Field(
            default=0.67, ge=0, le=1, description="Highest share of short lines."
        )
        short_line_length: int = Field(
            default=30, ge=0, description="Most characters of a short line."
        )
        char_duplicates_ratio: float = Field(
            default=0.01, ge=0, le=1, description="Highest share of characters in repeated lines."
        )
        new_line_ratio: float = Field(
            default=0.3, ge=0, description="Most line ends per word or mark."
        )

        @classmethod
        def _find_limits(cls, name: str) -> dict[str, Any]:
            return find_line_limits(name)

    version = "2"
    added_params: ClassVar[frozenset[str]] = SplittingFilter.added_params | {"preset"}
    params: Params

    def setup(self) -> None:
        """Load what splits texts, and the marks."""
        super().setup()
        marks = self.params.stop_chars
        self._marks = TERMINAL_MARKS if marks is None else frozenset(marks)
        self._are_single = all(len(mark) == 1 for mark in self._marks)
        self._endings = tuple(self._marks)

    def _find_reason(self, text: str) -> str | None:
        """Return the first rule that a text breaks."""
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        return next(self._find_reasons(text, lines), None) if lines else "empty"

    def _find_reasons(self, text: str, lines: list[str]) -> Iterator[str]:
        params, total = self.params, len(lines)
        ratio = self._count_ended(lines) / total
        script = self._find_script(text)
        if (
            applies(ProseMeasure.STOPS, script, self.count)
            and ratio < params.line_punct_thr
            and not (ratio == 0 and params.line_punct_exclude_zero)
        ):
            yield "line_punct_ratio"
        short = sum(len(line) <= params.short_line_length for line in lines)
        if (
            applies(ProseMeasure.LINE_LENGTH, script, self.count)
            and short / total > params.short_line_thr
        ):
            yield "short_line_ratio"
        ends = text.count("\n")
        again = count_repeats(lines).characters
        if again / (len(text) - ends) > params.char_duplicates_ratio:
            yield "char_dup_ratio"
        # Whoever splits, there are as many words as there is between blanks, or more.
        if ends > params.new_line_ratio * len(text.split()):
            words = len(self._splitter.split_words(text))
            if not words or ends / words > params.new_line_ratio:
                yield "list_ratio"

    def _count_ended(self, lines: list[str]) -> int:
        """Count lines that end in a mark; for datatrove a blank behind it hides it."""
        ended = lines if self.params.compatible else [line.rstrip() for line in lines]
        if self._are_single:
            return sum(line[-1] in self._marks for line in ended)
        return sum(line.endswith(self._endings) for line in ended)
