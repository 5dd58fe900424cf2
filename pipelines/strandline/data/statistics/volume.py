"""Volume of text: number and length of documents, in characters and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.data.statistics.histogram import Histogram
from strandline.data.statistics.moments import Moments


@dataclass(frozen=True, slots=True)
class TextVolume:
    """Volume of documents.

    Attributes:
        characters, tokens: moments of the character and token counts per document.
        histogram: histogram of tokens per document.
    """

    characters: Moments
    tokens: Moments
    histogram: Histogram

    @classmethod
    def from_counts(cls, characters: Sequence[int], tokens: Sequence[int]) -> TextVolume:
        """Return the volume of documents, given their character and token counts."""
        return cls(
            Moments.from_numbers(characters),
            Moments.from_numbers(tokens),
            Histogram.from_numbers(tokens),
        )

    def __add__(self, other: TextVolume) -> TextVolume:
        return TextVolume(
            self.characters + other.characters,
            self.tokens + other.tokens,
            self.histogram + other.histogram,
        )

    def describe(self) -> dict[str, Any]:
        """Return the numbers to show as JSON, without the histogram."""
        spread = {f"tokens_{name}": value for name, value in self.tokens.describe().items()}
        return {
            "documents": self.tokens.count,
            "characters": int(self.characters.total),
            "tokens": int(self.tokens.total),
            **spread,
        }

    def dump(self) -> list[Any]:
        """Return a plain list for `parse`."""
        return [self.characters.dump(), self.tokens.dump(), self.histogram.dump()]

    @classmethod
    def parse(cls, dumped: list[Any]) -> TextVolume:
        """Return the volume from the result of `dump`."""
        characters, tokens, histogram = dumped
        return cls(Moments.parse(characters), Moments.parse(tokens), Histogram.parse(histogram))
