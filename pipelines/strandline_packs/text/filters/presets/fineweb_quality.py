"""The stage `fineweb-quality`: drops lists, menus, and pages with repeated lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import Field

from strandline.data.tables.rules import Measured, Rule
from strandline_packs.text.filters.document_filter import PresetParams, SplittingFilter
from strandline_packs.text.filters.presets.fineweb_2 import find_line_limits
from strandline_packs.text.filters.repetition import count_repeats
from strandline_packs.text.filters.words.punctuation import TERMINAL_MARKS
from strandline_packs.text.filters.words.scripts import ProseMeasure, applies


class FinewebQuality(SplittingFilter):
    """Drops texts by FineWeb's rules on lines: punctuation, length, repeats, words per line."""

    class Params(PresetParams, SplittingFilter.Params):
        """Configures limits, with the same names as in datatrove."""

        line_punct_thr: float = Field(
            default=0.12, ge=0, le=1, description="Minimum share of lines that end in a stop."
        )
        line_punct_exclude_zero: bool = Field(
            default=False, description="Keep texts in which no line ends in a stop."
        )
        stop_chars: tuple[str, ...] | None = Field(
            default=None,
            description="Characters that count as a stop; by default the marks of all scripts that "
            "end a sentence, without quotes.",
        )
        short_line_thr: float = Field(
            default=0.67, ge=0, le=1, description="Maximum share of short lines."
        )
        short_line_length: int = Field(
            default=30, ge=0, description="Maximum number of characters of a short line."
        )
        char_duplicates_ratio: float = Field(
            default=0.01, ge=0, le=1, description="Maximum share of characters in repeated lines."
        )
        new_line_ratio: float = Field(
            default=0.3, ge=0, description="Maximum number of line ends per word or mark."
        )

        @classmethod
        def _find_limits(cls, name: str) -> dict[str, Any]:
            return find_line_limits(name)

    version = "2"
    added_params: ClassVar[frozenset[str]] = SplittingFilter.added_params | {"preset"}
    params: Params

    def setup(self) -> None:
        """Load the splitter and the marks."""
        super().setup()
        marks = self.params.stop_chars
        self._marks = TERMINAL_MARKS if marks is None else frozenset(marks)
        self._are_single = all(len(mark) == 1 for mark in self._marks)
        self._endings = tuple(self._marks)

    def list_rules(self) -> Sequence[Rule]:
        params = self.params
        return (
            Rule("line_punct_ratio", "line_punct_ratio", "linePunctThr", params.line_punct_thr,
                 is_least=True),
            Rule("short_line_ratio", "short_line_ratio", "shortLineThr", params.short_line_thr),
            Rule("char_dup_ratio", "char_dup_ratio", "charDuplicatesRatio",
                 params.char_duplicates_ratio),
            Rule("list_ratio", "list_ratio", "newLineRatio", params.new_line_ratio),
        )  # fmt: skip

    def _find_reason(self, text: str) -> str | None:
        """Return a reason to drop an empty text."""
        return "empty" if not text or text.isspace() else None

    def _measure(self, text: str) -> Iterator[Measured]:
        params = self.params
        lines = [line for line in text.split("\n") if line and not line.isspace()]
        total, script = len(lines), self._find_script(text)
        ratio = self._count_ended(lines) / total
        is_asked = applies(ProseMeasure.STOPS, script, self.count)
        is_asked = is_asked and not (ratio == 0 and params.line_punct_exclude_zero)
        yield "line_punct_ratio", ratio if is_asked else None
        short = sum(len(line) <= params.short_line_length for line in lines)
        is_asked = applies(ProseMeasure.LINE_LENGTH, script, self.count)
        yield "short_line_ratio", short / total if is_asked else None
        ends = text.count("\n")
        yield "char_dup_ratio", count_repeats(lines).characters / (len(text) - ends)
        # Every splitter returns at least as many words as `text.split()`.
        least = ends / len(text.split())
        if least > params.new_line_ratio or params.mark:
            words = len(self._splitter.split_words(text))
            yield "list_ratio", ends / words if words else least

    def _count_ended(self, lines: list[str]) -> int:
        """Count the lines that end in a mark. In datatrove, a trailing blank hides the mark."""
        ended = lines if self.params.compatible else [line.rstrip() for line in lines]
        # A set look-up is faster than `endswith` with many marks.
        if self._are_single:
            return sum(line[-1] in self._marks for line in ended)
        return sum(line.endswith(self._endings) for line in ended)
