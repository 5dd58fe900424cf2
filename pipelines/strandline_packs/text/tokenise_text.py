"""The stage `tokenise-text`: converts text to tokens, using Hugging Face's `tokenizers`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import digest_input, open_binary
from strandline.data.tables.columns import list_strings, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.models.tokenizer_files import list_special, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding

_TOKENS = pa.list_(pa.int32())


class TokeniseText(Stage):
    """Adds `tokens` (a list of ids) and `token_count`. The fingerprint covers the tokenizer."""

    class Params(Stage.Params):
        """Configures the tokenizer, and the tokens to add."""

        tokenizer: str = Field(
            min_length=1,
            description="File or fsspec URL of a tokenizer, `tokenizer.json`. Nothing is fetched "
            "from a hub.",
        )
        column: str = Field(default="text", description="Column with the text.")
        special_tokens: bool = Field(
            default=False, description="Add the tokens that the tokenizer puts around each text."
        )
        append: str | None = Field(
            default=None,
            description="Token to append to each text, such as `<|endoftext|>`.",
        )
        parse_special_tokens: bool = Field(
            default=False,
            description="Treat special tokens that occur in a text, such as `<|endoftext|>`, as "
            "these tokens. By default they are ordinary text.",
        )
        keep_text: bool = Field(default=False, description="Keep the column with the text.")
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
            """Return the location of the tokenizer."""
            return [("tokenizer", self.tokenizer)]

    version = "2"
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
            ValueError: the file is not a tokenizer, or lacks the token to append.
        """
        self._tokenizer = load_tokenizer(self.params.tokenizer)
        self._ending = self._find_ending()
        if not self.params.parse_special_tokens:
            self._tokenizer.encode_special_tokens = True  # True: treat them as text
        self._special = list_special(self._tokenizer) | set(self._ending)

    def process(self, task: Task) -> Task:
        """Tokenize every row. A null counts as an empty text."""
        column = self.params.column
        texts = list_strings(task.table, column)
        encodings = self._tokenizer.encode_batch(
            texts, add_special_tokens=self.params.special_tokens
        )
        tokens = [
            [*self._list_ids(text, encoding), *self._ending]
            for text, encoding in zip(texts, encodings, strict=True)
        ]
        counts = [len(each) for each in tokens]
        self.count("tokens", sum(counts))
        table = task.table if self.params.keep_text else task.table.drop_columns([column])
        table = set_column(table, "tokens", tokens, _TOKENS)
        return task.replace(set_column(table, "token_count", counts, pa.int64()))

    def find_largest_token(self) -> int | None:
        """Return the largest token id, or None if the file does not state the vocabulary."""
        return find_largest_token(self.params.tokenizer)

    def _list_ids(self, text: str, encoding: Encoding) -> list[int]:
        """Return the token ids of a text, without special tokens for names that occur in the text.

        Models with special tokens in their ordinary vocabulary still recognize them in text. In
        this case, cut the text inside these names, and tokenize the parts separately.
        """
        ids: list[int] = encoding.ids
        if self.params.parse_special_tokens or self._special.isdisjoint(ids):
            return ids
        around = encoding.special_tokens_mask
        cuts = [
            begin + 1
            for number, is_around, (begin, end) in zip(ids, around, encoding.offsets, strict=True)
            if not is_around and self._is_written(number, text[begin:end])
        ]
        if not cuts:
            return ids
        parts = [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]
        inner = self._tokenizer.encode_batch(parts, add_special_tokens=False)
        body = [at for at, is_around in enumerate(around) if not is_around]
        return [
            *ids[: body[0]],
            *chain.from_iterable(map(self._list_ids, parts, inner)),
            *ids[body[-1] + 1 :],
        ]

    def _is_written(self, number: int, text: str) -> bool:
        """Return whether a token is special and the text contains its name, unlike most `<unk>`."""
        written = text.strip()
        name = str(self._tokenizer.id_to_token(number)).strip("▁ ")
        return number in self._special and len(written) > 1 and written == name

    def _find_ending(self) -> list[int]:
        if self.params.append is None:
            return []
        number = self._tokenizer.token_to_id(self.params.append)
        if number is None:
            msg = f"the tokenizer has no token {self.params.append!r}"
            raise ValueError(msg)
        return [number]


def find_largest_token(path: str) -> int | None:
    """Return the largest id in the vocabulary of a `tokenizer.json`, if any.

    The JSON is read directly, so that planning does not need the library `tokenizers`.

    Raises:
        UnreadableFileError: the file can't be read.
    """
    with open_binary(path) as file:
        content = file.read()
    try:
        document = json.loads(content)
        vocabulary = document["model"]["vocab"]
        # The vocabulary may be a list of pieces with scores, where the position of a piece is its
        # id.
        is_list = isinstance(vocabulary, list)
        numbers = range(len(vocabulary)) if is_list else vocabulary.values()
        added = (token["id"] for token in document.get("added_tokens") or ())
        return max((*numbers, *added), default=None)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None  # not a tokenizer; `setup` reports the error
