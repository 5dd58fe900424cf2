"""The stage `repair-text`: repairs text that was decoded with the wrong encoding or is malformed.

The repairs are those of ftfy, which is loaded when the stage is used.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings, set_column
from strandline.data.tables.row_filter import JudgedRows, RowFilter


class Entities(StrEnum):
    """When to decode HTML entities."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


_UNESCAPE: dict[Entities, bool | str] = {
    Entities.AUTO: "auto",
    Entities.ALWAYS: True,
    Entities.NEVER: False,
}


class RepairText(RowFilter):
    """Repairs a column of text with ftfy: wrong encodings, entities, control characters."""

    class Params(RowFilter.Params):
        """Configures the repairs. By default, repairs do not change the look of valid text."""

        column: str = Field(default="text", description="Column to repair.")
        encoding: bool = Field(
            default=True,
            description=(
                "Repair text that was decoded with the wrong encoding, such as `schÃ¶n` for "
                "`schön`."
            ),
        )
        entities: Entities = Field(
            default=Entities.AUTO,
            description="Decode HTML entities such as `&amp;`: `auto` if the text has no `<`, "
            "`always`, or `never`.",
        )
        control_characters: bool = Field(
            default=True, description="Remove control characters and terminal escapes."
        )
        surrogates: bool = Field(default=True, description="Join pairs of surrogates.")
        ligatures: bool = Field(default=False, description="Turn Latin ligatures into letters.")
        width: bool = Field(
            default=False, description="Normalise half-width and full-width letters."
        )
        quotes: bool = Field(
            default=False, description="Turn curled quotation marks into plain ones."
        )
        line_breaks: bool = Field(default=False, description="Turn every line end into `\\n`.")

    params: Params
    changes_rows = True
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}
    packages: ClassVar[tuple[str, ...]] = ("ftfy",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def setup(self) -> None:
        """Load ftfy, and configure the repairs.

        Raises:
            ImportError: ftfy is not installed.
        """
        from ftfy import TextFixerConfig, fix_text  # noqa: PLC0415 - an extra's

        params = self.params
        self._repair_one = fix_text
        self._config = TextFixerConfig(
            unescape_html=_UNESCAPE[params.entities],
            remove_terminal_escapes=params.control_characters,
            fix_encoding=params.encoding,
            fix_c1_controls=params.encoding,
            fix_latin_ligatures=params.ligatures,
            fix_character_width=params.width,
            uncurl_quotes=params.quotes,
            fix_line_breaks=params.line_breaks,
            fix_surrogates=params.surrogates,
            remove_control_chars=params.control_characters,
            normalization=None,
            explain=False,
        )

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Repair the column, and count repaired rows. Drop and count rows that become empty."""
        column = self.params.column
        texts = list_strings(table, column)
        repaired = [self._repair_one(text, self._config) for text in texts]
        changed = sum(new != old for new, old in zip(repaired, texts, strict=True))
        if changed:
            self.count("repaired", changed)
        table = set_column(table, column, repaired, pa.string())
        return JudgedRows(table, [None if text else "empty" for text in repaired])
