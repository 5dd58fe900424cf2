"""The stage `identify-language`: adds the language of a text and its probability.

The library contains a model; another model can be given by path. Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Self

import pyarrow as pa
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.globs import expand_placeholder
from strandline.data.files.opening import digest_input
from strandline.data.tables.columns import list_strings, set_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline.data.tables.rules import Rule
from strandline_packs.models.model_files import find_model
from strandline_packs.text.filters.words.word_rules import compose
from strandline_packs.text.scoring.fasttext_models import FastTextModel

_CODE = re.compile("[a-z]{2}")


class IdentifyLanguage(RowFilter):
    """Adds `language` (ISO 639-1) and `language_probability`, and drops unwanted rows."""

    class Params(RowFilter.Params):
        """Configures the languages and the limits."""

        column: str = Field(default="text", description="Column with the text.")
        languages: tuple[str, ...] = Field(
            default=(),
            description="Codes of the languages to keep: two-letter codes, or the model's own "
            "names. By default every language is kept.",
        )
        min_probability: float = Field(
            default=0.5, ge=0, le=1, description="Minimum probability of the best language."
        )
        min_probabilities: dict[str, float] = Field(
            default={},
            description="Minimum probability of individual languages, by code, instead of "
            "`minProbability`.",
        )
        model: str | None = Field(
            default=None,
            min_length=1,
            description="File or URL of a fastText model, such as lid.176.ftz or GlotLID's; "
            "`{stdlib}` and `{site-packages}` mean this interpreter's folders. By "
            "default the bundled model.",
        )
        max_characters: int = Field(
            default=10_000, ge=1, description="Number of characters of a text that are used."
        )

        _digest: str = PrivateAttr(default="")

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the location of the model, if the parameters name one."""
            return () if self.model is None else [("model", self.model)]

        @model_validator(mode="after")
        def _check_languages(self) -> Self:
            for code in (*self.languages, *self.min_probabilities):
                if self.model is None and not _CODE.fullmatch(code):
                    msg = f"must be a two-letter language code such as 'en', not {code!r}"
                    raise ValueError(msg)
            return self

        @model_validator(mode="after")
        def _read_model(self) -> Self:
            if self.model is not None:
                self._digest = digest_input(expand_placeholder(self.model))
            return self

        @property
        def digest(self) -> str:
            """Digest of the model that the parameters name; empty if no model is named."""
            return self._digest

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {
        "min_probabilities",
        "model",
        "reason_column",
    }
    adds_columns = ("language", "language_probability")

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the model, if the parameters name one."""
        return {"model": self.params.digest} if self.params.digest else {}

    def setup_on_node(self) -> None:
        """Copy the model to the node's disk if the parameters name a URL."""
        if self.params.model is not None:
            find_model(self.params.model, self.params.digest)

    def setup(self) -> None:
        """Load the model. The built-in model takes about a second and 100 MB.

        Raises:
            ImportError: a model is given, but fastText is not installed.
            ModelError: the model is not on a disk of the worker.
            ValueError: the file is not a model.
        """
        if self.params.model is not None:
            self._classify = _load_model(self.params.model, self.params.digest)
            return
        # Normalize, because the library returns log-likelihoods by default.
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self._classify = identifier.classify

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Label every row, and drop and count unwanted rows."""
        size = self.params.max_characters
        texts = list_strings(table, self.params.column)
        found = [self._classify(compose(text)[:size]) for text in texts]
        table = set_column(table, "language", [code for code, _ in found], pa.string())
        shares = [round(share, 6) for _, share in found]
        table = set_column(table, "language_probability", shares, pa.float64())
        reasons = [self._find_reason(*each) for each in found]
        measures: dict[str, list[float | None]] = {
            "probability": [float(share) for _, share in found],
            "other_language": [int(self._is_other(code)) for code, _ in found],
        }
        return JudgedRows(table, reasons, measures)

    def list_rules(self) -> Sequence[Rule]:
        if self.params.min_probabilities:  # each language has its own limit
            return ()
        least = self.params.min_probability
        return (
            Rule("uncertain language", "probability", "minProbability", least, is_least=True),
            Rule("other language", "other_language", "", 0, is_count=True),
        )

    def _find_reason(self, code: str, share: float) -> str | None:
        if share < self.params.min_probabilities.get(code, self.params.min_probability):
            return "uncertain language"
        return "other language" if self._is_other(code) else None

    def _is_other(self, code: str) -> bool:
        return bool(self.params.languages) and code not in self.params.languages


def _load_model(path: str, digest: str) -> Callable[[str], tuple[str, float]]:
    model = FastTextModel(find_model(path, digest))
    # fastText reads a single line, so join the lines.
    return lambda text: model.find_best(" ".join(text.split()))
