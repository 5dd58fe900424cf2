"""Parameters of stages that take a text and the key of its row, which is unique in the corpus.

It knows where they are, nothing of what is made of them.
"""

from __future__ import annotations

from pydantic import Field

from strandline.plan.stages.stage import Stage


class KeyedTextParams(Stage.Params):
    """Where text and key are."""

    column: str = Field(default="text", description="Column with the text.")
    key: str = Field(
        default="key", description="Column with the key of the row, unique in the corpus."
    )


class WordRunParams(KeyedTextParams):
    """Which texts, and what they are compared by."""

    words: int = Field(
        default=5,
        ge=1,
        description="Texts are compared by runs of so many words; fewer find looser likeness.",
    )
