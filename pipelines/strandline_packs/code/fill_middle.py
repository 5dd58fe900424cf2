"""The stage `fill-middle`: reorders tokens so that a model learns to fill the middle of a text."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import ClassVar, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import digest_input
from strandline.data.tables.columns import find_column, list_texts, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.models.tokenizer_files import load_tokenizer

_BYTES = 8  # size of a random number, in bytes
_WHOLE = 1 << 8 * _BYTES
FORM = "fill_middle"
COUNT = "token_count"  # added by `tokenise-text`


class MiddleMarks(NamedTuple):
    """Marker tokens in front of each part, and the end-of-text token if the texts have one."""

    prefix: int
    suffix: int
    middle: int
    end: int | None = None


class FillMiddle(Stage):
    """Cuts some rows of tokens into three parts and moves the middle part to the end."""

    class Params(Stage.Params):
        """Configures the share of rows to reorder, and the tokens between the parts."""

        tokenizer: str = Field(
            min_length=1,
            description="File or fsspec URL of the `tokenizer.json` that made the tokens.",
        )
        prefix: str = Field(default="<fim_prefix>", description="Token before the beginning.")
        suffix: str = Field(default="<fim_suffix>", description="Token before the end.")
        middle: str = Field(default="<fim_middle>", description="Token before the middle.")
        end: str | None = Field(
            default=None,
            description="Token that ends texts, as in `append` of `tokenise-text`; it stays last.",
        )
        rate: float = Field(
            default=0.5, ge=0, le=1, description="Approximate share of rows that are cut."
        )
        suffix_first: float = Field(
            default=0.5,
            ge=0,
            le=1,
            description="Share of the cut rows with the order end, beginning, middle (SPM); the "
            "others have the order beginning, end, middle (PSM).",
        )
        seed: int = Field(default=0, description="Seed for the choice of rows, orders and cuts.")
        column: str = Field(default="tokens", min_length=1, description="Column with the tokens.")
        key: str = Field(
            default="key",
            min_length=1,
            description="Column that determines the choice together with the seed.",
        )
        _digest: str = PrivateAttr(default="")

        @model_validator(mode="after")
        def _read(self) -> Self:
            self._digest = digest_input(self.tokenizer)
            return self

        @property
        def digest(self) -> str:
            """Digest of the tokenizer file."""
            return self._digest

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the tokenizer."""
            return [("tokenizer", self.tokenizer)]

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("tokenizers",)
    keeps_columns = True
    adds_columns = (FORM,)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def change_columns(self, columns: Columns) -> Columns:
        return columns.having(self.adds_columns)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the tokenizer."""
        return {"tokenizer": self.params.digest}

    def setup(self) -> None:
        """Look up the marker tokens.

        Raises:
            ImportError: `tokenizers` is not installed.
            ValueError: the file is no tokenizer, or lacks one of the tokens.
        """
        params, tokenizer = self.params, load_tokenizer(self.params.tokenizer)
        names = [params.prefix, params.suffix, params.middle]
        names += [] if params.end is None else [params.end]
        numbers = []
        for name in names:
            number = tokenizer.token_to_id(name)
            if number is None:
                msg = f"the tokenizer has no token {name!r}"
                raise ValueError(msg)
            numbers.append(number)
        self._marks = MiddleMarks(*numbers)

    def process(self, task: Task) -> Task:
        """Reorder the selected rows. Each reordered row has three more tokens.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the column does not contain lists of numbers.
        """
        table, params = task.table, self.params
        keys = list_texts(table, params.key)
        column = find_column(table, params.column)
        kind = column.type
        if not _holds_tokens(kind):
            msg = f"the column {params.column!r} holds {kind}, not lists of whole numbers"
            raise TypeError(msg)
        rows, forms = [], []
        for key, found in zip(keys, column.to_pylist(), strict=True):
            tokens, form = found, self._choose_form(key, len(found or ()))
            before = len(tokens or ())
            row = (
                tokens
                if form is None
                else reorder(tokens, self._cut(key, before), form, self._marks)
            )
            self.count("tokens in", before)
            self.count("tokens out", len(row or ()))
            rows.append(row)
            forms.append(form)
        self.count("rows with their middle at the end", len(forms) - forms.count(None))
        table = set_column(table, params.column, rows, kind)
        if COUNT in table.column_names:
            counts = [len(row or ()) for row in rows]
            table = set_column(table, COUNT, counts, pa.int64())
        return task.replace(set_column(table, FORM, forms, pa.string()))

    def _choose_form(self, key: str, length: int) -> str | None:
        params = self.params
        # An empty text would consist of markers only.
        if not length or draw(params.seed, "row", key) >= params.rate * _WHOLE:
            return None
        is_spm = draw(params.seed, "form", key) < params.suffix_first * _WHOLE
        return "spm" if is_spm else "psm"

    def _cut(self, key: str, length: int) -> tuple[int, int]:
        """Return random start and end positions of the middle, uniformly distributed."""
        # A text of n tokens has n + 1 positions to cut at, both ends included.
        cuts = (draw(self.params.seed, name, key) * (length + 1) // _WHOLE for name in ("a", "b"))
        first, second = sorted(cuts)
        return first, second


def reorder(tokens: list[int], cut: tuple[int, int], form: str, marks: MiddleMarks) -> list[int]:
    """Move the middle of the text to its end, and insert the marker tokens."""
    # Keep the end-of-text token last, so that a model learns where to stop.
    has_end = marks.end is not None and tokens[-1] == marks.end
    body, end = (tokens[:-1], tokens[-1:]) if has_end else (tokens, [])
    first, last = cut
    prefix, middle, suffix = body[:first], body[first:last], body[last:]
    # In SPM, the middle directly continues the beginning, without a marker in between.
    if form == "spm":
        return [marks.prefix, marks.suffix, *suffix, marks.middle, *prefix, *middle, *end]
    return [marks.prefix, *prefix, marks.suffix, *suffix, marks.middle, *middle, *end]


def draw(seed: int, purpose: str, key: str) -> int:
    """Return a pseudorandom 64-bit integer that depends only on seed, purpose, and key."""
    text = f"{seed}\n{purpose}\n{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=_BYTES).digest(), "big")


def _holds_tokens(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(is_list and pa.types.is_integer(kind.value_type))
