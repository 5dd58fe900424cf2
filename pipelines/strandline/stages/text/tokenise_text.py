"""The stage `tokenise-text`: text as the tokens of a model, by Hugging Face's `tokenizers`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.plan.columns import Columns
from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import list_strings, set_column
from strandline.stages.sources.opening import digest_input, open_binary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENS = pa.list_(pa.int32())


@register("tokenise-text")
class TokeniseText(Stage):
    """Adds `tokens` (a list of numbers) and `token_count`; the tokenizer is in the fingerprint."""

    class Params(Stage.Params):
        """Which tokenizer, and what is added to its tokens."""

        tokenizer: str = Field(
            min_length=1,
            description="File or fsspec URL of a tokenizer, `tokenizer.json`. Nothing is fetched "
            "from a hub.",
        )
        column: str = Field(default="text", description="Column with the text.")
        special_tokens: bool = Field(
            default=False, description="Add what the tokenizer puts around each text."
        )
        append: str | None = Field(
            default=None,
            description="A token to end each text with, such as `<|endoftext|>`.",
        )
        keep_text: bool = Field(default=False, description="Keep the column with the text.")
        _digest: str = PrivateAttr(default="")

        @model_validator(mode="after")
        def _read(self) -> Self:
            self._digest = digest_input(self.tokenizer)
            return self

        @property
        def digest(self) -> str:
            """Of the tokenizer."""
            return self._digest

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the tokenizer."""
            return [("tokenizer", self.tokenizer)]

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("tokenizers",)
    keeps_columns = True
    adds_columns = ("tokens", "token_count")

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def change_columns(self, columns: Columns) -> Columns:
        gone = () if self.params.keep_text else (self.params.column,)
        return columns.without(gone).having(self.adds_columns)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of the tokenizer."""
        return {"tokenizer": self.params.digest}

    def setup(self) -> None:
        """Load the tokenizer.

        Raises:
            ImportError: `tokenizers` is not installed.
            ValueError: the file is no tokenizer, or does not know the token that ends a text.
        """
        self._tokenizer = load_tokenizer(self.params.tokenizer)
        self._ending = self._find_ending()

    def process(self, task: Task) -> Task:
        """Tokenise every row; a null is an empty text."""
        column = self.params.column
        encodings = self._tokenizer.encode_batch(
            list_strings(task.table, column), add_special_tokens=self.params.special_tokens
        )
        tokens = [[*encoding.ids, *self._ending] for encoding in encodings]
        counts = [len(each) for each in tokens]
        self.count("tokens", sum(counts))
        table = task.table if self.params.keep_text else task.table.drop_columns([column])
        table = set_column(table, "tokens", tokens, _TOKENS)
        return task.replace(set_column(table, "token_count", counts, pa.int64()))

    def _find_ending(self) -> list[int]:
        if self.params.append is None:
            return []
        number = self._tokenizer.token_to_id(self.params.append)
        if number is None:
            msg = f"the tokenizer has no token {self.params.append!r}"
            raise ValueError(msg)
        return [number]


def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` at a path or URL; it cuts and pads nothing.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is no tokenizer.
    """
    tokenizer = read_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` at a path or URL; it cuts and pads as that says.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is no tokenizer.
    """
    # A worker has the cores that its pool gives it; a pool of threads would take all.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra's

    with open_binary(path) as file:
        content = file.read()
    try:
        return Tokenizer.from_str(content.decode())
    except Exception as error:  # it raises nothing more particular
        msg = f"{Path(path).name}: no tokenizer that can be read ({error})"
        raise ValueError(msg) from error
