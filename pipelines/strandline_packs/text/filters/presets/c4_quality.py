"""The stage `c4-quality`: drops lines that are not sentences, and texts with too few sentences.

The rules run in the order of C4's published reference.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.row_filter import JudgedRows
from strandline.data.tables.rules import Rule
from strandline_packs.text.filters.document_filter import FilterAnswer, SplittingFilter
from strandline_packs.text.filters.splitting import cut_sentences
from strandline_packs.text.filters.words.punctuation import TERMINAL_MARKS
from strandline_packs.text.filters.words.scripts import ProseMeasure, applies

_CITATION = re.compile(r"\[(?:\d*|edit|citation needed)\]")
_ENDS = (".", "?", "!", '"', "'")
# Terminal marks beyond ASCII, and the closing quotes that may follow.
_OTHER_ENDS = ("」", "』", *(mark for mark in sorted(TERMINAL_MARKS) if not mark.isascii()))
_ELLIPSIS = "..."
_POLICIES = (
    "terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies",
    "use cookies",
)  # fmt: skip


class Unit(StrEnum):
    """The unit that is kept or dropped."""

    LINES = "lines"
    SENTENCES = "sentences"


class DroppedText(Exception):  # noqa: N818 - an answer, not an error
    """A line is a reason to drop the whole text."""


class C4Quality(SplittingFilter):
    """Keeps the lines of a text that pass C4's rules, and drops texts with too few sentences."""

    class Params(SplittingFilter.Params):
        """Configures the rules, and their limits."""

        unit: Unit = Field(
            default=Unit.LINES,
            description="What the rules apply to: `lines`, as in C4, or `sentences`.",
        )
        remove_citations: bool = Field(
            default=True, description="Remove `[1]`, `[edit]` and `[citation needed]`."
        )
        filter_no_terminal_punct: bool = Field(
            default=True, description="Drop lines that don't end in a stop or a quote."
        )
        min_num_sentences: int | None = Field(
            default=5, ge=0, description="Minimum number of sentences left of a text."
        )
        min_words_per_line: int | None = Field(
            default=3, ge=0, description="Minimum number of words of a line, separated by blanks."
        )
        max_word_length: int | None = Field(
            default=1000,
            ge=1,
            description="Maximum number of characters of a word; longer words drop the line.",
        )
        filter_lorem_ipsum: bool = Field(
            default=True, description="Drop texts in which a line has `lorem ipsum`."
        )
        filter_javascript: bool = Field(
            default=True, description="Drop lines that mention JavaScript."
        )
        filter_curly_bracket: bool = Field(
            default=True, description="Drop texts in which a line has `{`."
        )
        filter_policy: bool = Field(
            default=True, description="Drop lines about cookies, privacy and terms of use."
        )

    version = "2"
    params: Params
    keeps_columns = True
    changes_rows = True

    def setup(self) -> None:
        """Load the splitter."""
        super().setup()
        self._dropped: Counter[str] = Counter()

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop lines and texts, and count both."""
        self._dropped.clear()
        answer = super().judge_rows(table)
        for reason, number in self._dropped.items():
            self.count(f"lines dropped: {reason}", number)
        return answer

    def judge(self, text: str) -> FilterAnswer:
        """Judge a text by its lines, and return the remaining lines."""
        by_lines = self.params.unit is Unit.LINES
        script = self._find_script(text)
        self._has_stops = applies(ProseMeasure.STOPS, script, self.count)
        self._has_blanks = applies(ProseMeasure.WORDS_OF_A_LINE, script, self.count)
        try:
            kept = [line for part in self._split(text) if (line := self._clean(part)) is not None]
        except DroppedText as answer:
            return FilterAnswer(str(answer), text)
        left = ("\n" if by_lines else " ").join(kept).strip()
        measures = iter((("sentences", self._count_sentences(kept)), ("characters", len(left))))
        verdict = self._apply_rules(measures)
        going_on = left if verdict.reason is None else text
        return FilterAnswer(verdict.reason, going_on, verdict.measures)

    def list_rules(self) -> Sequence[Rule]:
        fewest = None if self.params.compatible else 1
        return (
            Rule("too_few_sentences", "sentences", "minNumSentences",
                 self.params.min_num_sentences, is_least=True, is_count=True),
            Rule("empty", "characters", "", fewest, is_least=True, is_count=True),
        )  # fmt: skip

    def _split(self, text: str) -> list[str]:
        if self.params.unit is Unit.LINES:
            return text.splitlines()
        return cut_sentences(self._splitter, text)

    def _clean(self, part: str) -> str | None:
        """Return the cleaned line, or None to drop it.

        Raises:
            DroppedText: the line is a reason to drop the whole text.
        """
        params = self.params
        line = part.strip()
        words = line.split()
        most = params.max_word_length
        # Check the length of the line first: a short line cannot contain a longer word.
        if most is not None and len(line) > most and self._measure_longest(words) > most:
            return self._drop_line("too_long_word")
        if params.remove_citations and "[" in line:
            line = _CITATION.sub("", line)
            # Unlike datatrove, strip the line: otherwise "It was built in 1823. [1]" would end in a
            # blank.
            line = line if params.compatible else line.rstrip()
        if params.filter_no_terminal_punct and self._has_stops and not self._is_ended(line):
            return self._drop_line("no_terminal_punc")
        least = params.min_words_per_line
        if least is not None and self._has_blanks and len(words) < least:
            return self._drop_line("too_few_words")
        return self._look_for_phrases(line, line.lower())

    def _is_ended(self, line: str) -> bool:
        if line.endswith(_ELLIPSIS):
            return False
        return line.endswith(_ENDS) or (not self.params.compatible and line.endswith(_OTHER_ENDS))

    def _measure_longest(self, words: list[str]) -> int:
        return max(len(self._prepare(word)) for word in words)

    def _look_for_phrases(self, line: str, lowered: str) -> str | None:
        params = self.params
        if params.filter_lorem_ipsum and "lorem ipsum" in lowered:
            raise DroppedText("lorem_ipsum")
        if params.filter_javascript and "javascript" in lowered:
            return self._drop_line("javascript")
        if params.filter_curly_bracket and "{" in line:
            raise DroppedText("curly_bracket")
        if params.filter_policy and any(map(lowered.__contains__, _POLICIES)):
            return self._drop_line("policy")
        return line

    def _drop_line(self, reason: str) -> str | None:
        self._dropped[reason] += 1
        return None

    def _count_sentences(self, lines: list[str]) -> int | None:
        """Count sentences up to the required number, or all of them for measures."""
        least = math.inf if self.params.mark else self.params.min_num_sentences or 0
        number = len(lines)
        if not self._has_stops:
            return None if lines else 0
        if self.params.unit is Unit.SENTENCES or number >= least:
            return number
        number = 0
        for line in lines:
            # A line counts as a sentence at least.
            number += max(1, sum(1 for _ in self._splitter.find_sentences(line)))
            if number >= least:
                break
        return number
