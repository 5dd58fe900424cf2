"""Parameters of stages that read a text and the key of its row, which is unique in the corpus."""

from __future__ import annotations

from pydantic import Field

from strandline.plan.stages.stage import Stage


class KeyedTextParams(Stage.Params):
    """Names the columns with the text and the key."""

    column: str = Field(default="text", description="Column with the text.")
    key: str = Field(
        default="key", description="Column with the key of the row, unique in the corpus."
    )


class WordRunParams(KeyedTextParams):
    """Configures the texts to compare, and the number of consecutive words in a run."""

    words: int = Field(
        default=5,
        ge=1,
        description=(
            "Number of words of the runs by which texts are compared; fewer words find less "
            "similar texts."
        ),
    )
