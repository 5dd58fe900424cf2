"""How much text there is: documents, characters, tokens, and how long the documents are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.data.statistics.histogram import Histogram
from strandline.data.statistics.moments import Moments


@dataclass(frozen=True, slots=True)
class TextVolume:
    """The volume of some documents.

    Attributes:
        characters, tokens: of each document.
        histogram: of the tokens of a document.
    """

    characters: Moments
    tokens: Moments
    histogram: Histogram

    @classmethod
    def of(cls, characters: Sequence[int], tokens: Sequence[int]) -> TextVolume:
        """Return the volume of documents, by their counts of characters and tokens."""
        return cls(Moments.of(characters), Moments.of(tokens), Histogram.of(tokens))

    def __add__(self, other: TextVolume) -> TextVolume:
        return TextVolume(
            self.characters + other.characters,
            self.tokens + other.tokens,
            self.histogram + other.histogram,
        )

    def describe(self) -> dict[str, Any]:
        """Return what people read, as JSON has it; the histogram apart."""
        spread = {f"tokens_{name}": value for name, value in self.tokens.describe().items()}
        return {
            "documents": self.tokens.count,
            "characters": int(self.characters.total),
            "tokens": int(self.tokens.total),
            **spread,
        }

    def dump(self) -> list[Any]:
        """Dump it as a plain list; `parse` reads it."""
        return [self.characters.dump(), self.tokens.dump(), self.histogram.dump()]

    @classmethod
    def parse(cls, dumped: list[Any]) -> TextVolume:
        """Read what `dump` gave."""
        characters, tokens, histogram = dumped
        return cls(Moments.parse(characters), Moments.parse(tokens), Histogram.parse(histogram))
