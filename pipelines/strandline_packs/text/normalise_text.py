"""The stage `normalise-text`: gives texts that look the same one spelling."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings, set_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter

# CRLF, CR, VT, FF, NEL, and the separators of lines and paragraphs.
_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters, soft hyphens, zero-width spaces, word joiners, and byte order marks.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060\ufeff\ufffe\uffff]")
_BLANKS = re.compile(r"[^\S\n]+")  # white space except line ends
_EDGES = re.compile(r" ?\n ?")
_PARAGRAPHS = re.compile(r"\n{3,}")


class Form(StrEnum):
    """A Unicode normal form."""

    NFC = "NFC"
    NFKC = "NFKC"


class NormaliseText(RowFilter):
    """Applies a Unicode normal form, unifies line ends and blanks, removes invisible characters."""

    class Params(RowFilter.Params):
        """Configures the column, and the normalization steps."""

        column: str = Field(default="text", description="Column to normalise.")
        form: Form = Field(
            default=Form.NFC,
            description="`NFC` preserves the appearance of text. `NFKC` also replaces ligatures "
            "and full-width letters.",
        )

    params: Params
    changes_rows = True
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Normalize the column, and drop and count rows that become empty."""
        column = self.params.column
        texts = [self._normalise(text) for text in list_strings(table, column)]
        table = set_column(table, column, texts, pa.string())
        return JudgedRows(table, [None if text else "empty" for text in texts])

    def _normalise(self, text: str) -> str:
        return normalise(text, self.params.form.value)


def normalise(text: str, form: str) -> str:
    """Return the text in a Unicode normal form (NFC or NFKC) with tidy white space; idempotent."""
    # Replace line ends first, because `_INVISIBLE` would remove `\x85`.
    text = _INVISIBLE.sub("", _LINE_END.sub("\n", text))
    text = unicodedata.normalize("NFC" if form == "NFC" else "NFKC", text)
    text = _EDGES.sub("\n", _BLANKS.sub(" ", text))
    return _PARAGRAPHS.sub("\n\n", text).strip()
