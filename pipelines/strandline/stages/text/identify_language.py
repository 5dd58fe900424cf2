"""The stage `identify-language`: which language a text is in, and how sure that is.

The model ships inside the library; nothing is fetched.
"""

from __future__ import annotations

import re

import pyarrow as pa
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from pydantic import Field, field_validator

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import keep_rows, list_strings, set_column

_CODE = re.compile("[a-z]{2}")


@register("identify-language")
class IdentifyLanguage(Stage):
    """Adds `language` (ISO 639-1) and `language_probability`; keeps the wanted and certain."""

    class Params(Stage.Params):
        """What to keep."""

        column: str = Field(default="text", description="Column with the text.")
        languages: tuple[str, ...] = Field(
            default=(), description="Two-letter codes to keep; empty keeps every language."
        )
        min_probability: float = Field(
            default=0.5, ge=0, le=1, description="Lowest probability of the best language."
        )
        max_characters: int = Field(
            default=10_000, ge=1, description="Characters of a text that are looked at."
        )

        @field_validator("languages")
        @classmethod
        def _check_languages(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
            for code in codes:
                if not (_CODE.fullmatch(code)):
                    msg = f"{code!r} is no two-letter language code such as 'en'"
                    raise ValueError(msg)
            return codes

    params: Params
    keeps_columns = True
    adds_columns = ("language", "language_probability")

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def setup(self) -> None:
        """Load the model: about a second and 100 MB."""
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def process(self, task: Task) -> Task | None:
        """Label every row; drop and count those that are not wanted."""
        size = self.params.max_characters
        texts = list_strings(task.table, self.params.column)
        found = [self._identifier.classify(text[:size]) for text in texts]
        table = set_column(task.table, "language", [code for code, _ in found], pa.string())
        shares = [round(share, 6) for _, share in found]
        table = set_column(table, "language_probability", shares, pa.float64())
        mask = [self._is_kept(code, share) for code, share in found]
        return keep_rows(task, table, mask)

    def _is_kept(self, code: str, share: float) -> bool:
        if share < self.params.min_probability:
            self.count("dropped: uncertain language")
            return False
        if self.params.languages and code not in self.params.languages:
            self.count("dropped: other language")
            return False
        return True
