"""The stage `score-perplexity`: adds the perplexity of texts under a KenLM model.

KenLM and the tokenizer's library are imported when the stage is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.files.opening import open_binary
from strandline.data.tables.rules import Rule
from strandline_packs.models.model_files import ModelError
from strandline_packs.models.tokenizer_files import load_tokenizer
from strandline_packs.text.scoring.perplexity import (
    LineScorer,
    Tokenise,
    measure_perplexity,
    normalise_as_ccnet,
)
from strandline_packs.text.scoring.scoring_filter import (
    ScoringFilter,
    judge_bounds,
    list_bounds,
)


class TextNormalisation(StrEnum):
    """Normalization of a text before tokenization."""

    NONE = "none"
    CCNET = "ccnet"


class ScorePerplexity(ScoringFilter):
    """Adds the perplexity of texts under a KenLM model, and drops texts outside the limits."""

    class Params(ScoringFilter.Params):
        """Configures the model (ARPA or KenLM's binary format), the tokenizer, and the limits."""

        tokenizer: str | None = Field(
            default=None,
            min_length=1,
            description="File or fsspec URL of the tokenizer that the model was trained with: a "
            "`tokenizer.json`, or, with another name, a SentencePiece model. Without "
            "it, tokens are separated by blanks.",
        )
        normalise: TextNormalisation = Field(
            default=TextNormalisation.NONE,
            description="`ccnet`: as for CCNet's models, that is, lower-case letters without "
            "accents, 0 for digits, ASCII punctuation, all in one line; `none`: the "
            "unchanged text.",
        )
        min_perplexity: float | None = Field(
            default=None, ge=0, description="Minimum perplexity; texts below are dropped."
        )
        max_perplexity: float | None = Field(
            default=None, ge=0, description="Maximum perplexity; texts above are dropped."
        )
        perplexity_column: str = Field(
            default="perplexity", min_length=1, description="Column for the perplexity."
        )

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.perplexity_column in {self.column, self.reason_column}:
                msg = f"columns need different names: {self.perplexity_column} is already used"
                raise ValueError(msg)
            return self

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the locations of the model and the tokenizer."""
            own = [] if self.tokenizer is None else [("tokenizer", self.tokenizer)]
            return [*super().list_places(), *own]

    params: Params

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """KenLM, and the library of the tokenizer."""
        path = self.params.tokenizer
        return ("kenlm",) if path is None else ("kenlm", _find_package(path))

    def _list_score_columns(self) -> Sequence[tuple[str, pa.DataType]]:
        return [(self.params.perplexity_column, pa.float64())]

    def list_rules(self) -> Sequence[Rule]:
        least, most = self.params.min_perplexity, self.params.max_perplexity
        return list_bounds(least, most, "perplexity", self.params.perplexity_column)

    def setup(self) -> None:
        """Load the model and the tokenizer.

        Raises:
            ImportError: a package is not installed.
            ModelError: the model is missing, or KenLM cannot read it.
            ValueError: the tokenizer can't be read.
        """
        self._scorer = load_kenlm(self._find_model())
        path = self.params.tokenizer
        self._tokenise: Tokenise = str.split if path is None else load_pieces(path)

    def _score_all(self, texts: Sequence[str]) -> Iterable[tuple[float | None]]:
        return [(self._score(text),) for text in texts]

    def _score(self, text: str) -> float | None:
        if self.params.normalise is TextNormalisation.CCNET:
            text = normalise_as_ccnet(text)
        perplexity = measure_perplexity(text, self._scorer, self._tokenise)
        return None if perplexity is None else round(perplexity, 6)

    def _judge_scores(self, scores: Sequence[Any]) -> str | None:
        least, most = self.params.min_perplexity, self.params.max_perplexity
        return judge_bounds(scores[0], least, most, "perplexity")


def load_kenlm(path: Path) -> LineScorer:
    """Return a KenLM model, ARPA or binary.

    Raises:
        ImportError: KenLM is not installed.
        ModelError: the file is no KenLM model.
    """
    import kenlm  # noqa: PLC0415 - an extra's

    config = kenlm.Config()
    # Progress bars and warnings would fill the log of every worker.
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        model: LineScorer = kenlm.Model(str(path), config)
    except OSError as error:
        msg = f"{path.name}: KenLM can't read this model ({error})"
        raise ModelError(msg) from error
    return model


def load_pieces(path: str) -> Tokenise:
    """Return a function that splits a line by a `tokenizer.json` or a SentencePiece model.

    Raises:
        ImportError: the library of the tokenizer is not installed.
        ValueError: the file can't be read.
    """
    if _find_package(path) == "tokenizers":
        tokenizer = load_tokenizer(path)
        return lambda line: tokenizer.encode(line, add_special_tokens=False).tokens
    from sentencepiece import SentencePieceProcessor  # noqa: PLC0415 - an extra's

    with open_binary(path) as file:
        content = file.read()
    try:
        pieces = SentencePieceProcessor(model_proto=content)
    except RuntimeError as error:
        msg = f"{Path(path).name}: not a SentencePiece model ({error})"
        raise ValueError(msg) from error
    return lambda line: pieces.encode(line, out_type=str)


def _find_package(path: str) -> str:
    return "tokenizers" if path.endswith(".json") else "sentencepiece"
