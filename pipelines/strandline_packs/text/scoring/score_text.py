"""The stage `score-text`: adds a number that a network computes for each text.

The user provides the network, which is an ONNX file that takes tokens, and its tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.tables.rules import Rule
from strandline_packs.models.model_files import ModelError
from strandline_packs.text.scoring.scoring_filter import (
    ScoringFilter,
    judge_bounds,
    list_bounds,
)
from strandline_packs.text.scoring.token_networks import (
    DIGITS,
    NOT_FINGERPRINTED,
    PACKAGES,
    NetworkParams,
    TokenNetwork,
    find_files,
)


class ScoreText(ScoringFilter):
    """Adds the score of a token network to each text, and drops texts outside the limits."""

    class Params(NetworkParams):
        """Configures the network, and the limits."""

        tokenizer: str = Field(
            min_length=1,
            description="File or URL of the network's `tokenizer.json`. Its content is part of the "
            "fingerprint.",
        )
        min_score: float | None = Field(
            default=None, description="Minimum score; texts below are dropped."
        )
        max_score: float | None = Field(
            default=None, description="Maximum score; texts above are dropped."
        )
        score_column: str = Field(
            default="score", min_length=1, description="Column for the score."
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.score_column in {self.column, self.reason_column}:
                msg = f"columns need different names: {self.score_column} is already used"
                raise ValueError(msg)
            return self

    params: Params
    packages: ClassVar[tuple[str, ...]] = PACKAGES
    not_fingerprinted: ClassVar[frozenset[str]] = NOT_FINGERPRINTED

    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        return [(self.params.score_column, pa.float64())]

    def setup_on_node(self) -> None:
        """Download the files to the node's disk if the parameters name URLs."""
        find_files(self.params, self.params.tokenizer)

    def list_rules(self) -> Sequence[Rule]:
        least, most = self.params.min_score, self.params.max_score
        return list_bounds(least, most, "score", self.params.score_column)

    def setup(self) -> None:
        """Load the network and its tokenizer, and run it once.

        Raises:
            ImportError: the library of the network is not installed.
            ModelError: the network is missing, or its output is not one number.
            ValueError: the tokenizer can't be read.
        """
        params = self.params
        self._network = TokenNetwork(params, *find_files(params, params.tokenizer))
        if self._network.width != 1:
            msg = (
                f"{params.model}: the network must return one number per text, but it returns "
                f"{self._network.width}; use `classify-text` for labels"
            )
            raise ModelError(msg)

    def _score_all(self, texts: Sequence[str]) -> Iterable[tuple[float | None]]:
        looked_at = [text[: self.params.max_characters] for text in texts]
        return [
            (None if numbers is None else round(numbers[0], DIGITS),)
            for numbers in self._network.run(looked_at)
        ]

    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        return judge_bounds(scores[0], self.params.min_score, self.params.max_score, "score")
