"""The stage `tokenise-chat`: converts conversations to tokens, with a mask of tokens to learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import digest_input
from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.models.chat_templates import ChatError, RenderedChat, read_template
from strandline_packs.models.tokenizer_files import list_special, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding


class TokeniseChat(Stage):
    """Adds `tokens`, `mask` and `token_count` of conversations, by the template of a tokenizer."""

    class Params(Stage.Params):
        """Configures the tokenizer, its template, and the roles to learn."""

        tokenizer: str = Field(
            min_length=1, description="File or fsspec URL of a tokenizer, `tokenizer.json`."
        )
        config: str = Field(
            min_length=1,
            description="File or fsspec URL of its `tokenizer_config.json`, with `chat_template`.",
        )
        column: str = Field(
            default="messages",
            min_length=1,
            description="Column with lists of objects, each with `role` and `content`.",
        )
        roles: tuple[str, ...] = Field(
            default=("assistant",),
            description="Roles of the messages to learn; the mask is true for their tokens.",
        )
        _digests: tuple[str, str] = PrivateAttr(default=("", ""))

        @model_validator(mode="after")
        def _read(self) -> Self:
            self._digests = digest_input(self.tokenizer), digest_input(self.config)
            return self

        @property
        def digests(self) -> tuple[str, str]:
            """Digests of the tokenizer and its configuration."""
            return self._digests

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the locations of the tokenizer and its configuration."""
            return [("tokenizer", self.tokenizer), ("config", self.config)]

    params: Params
    packages: ClassVar[tuple[str, ...]] = ("tokenizers", "jinja2")
    keeps_columns = True
    adds_columns = ("tokens", "mask", "token_count")

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def change_columns(self, columns: Columns) -> Columns:
        return columns.having(self.adds_columns)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the tokenizer and its configuration."""
        return dict(zip(("tokenizer", "config"), self.params.digests, strict=True))

    def setup(self) -> None:
        """Load the tokenizer and the template.

        Raises:
            ImportError: `tokenizers` or Jinja is not installed.
            ValueError: a file is no tokenizer, or has no template.
        """
        self._tokenizer = load_tokenizer(self.params.tokenizer)
        self._template = read_template(self.params.config)
        numbers = sorted(list_special(self._tokenizer))
        self._special = [str(self._tokenizer.id_to_token(number)) for number in numbers]

    def process(self, task: Task) -> Task:
        """Render and tokenize every row. A null is a conversation without messages.

        Raises:
            MissingColumnError: the column is missing.
            TypeError: the column has no lists of objects.
            ChatError: a conversation can't be rendered, or has a special token in a message.
        """
        table, column = task.table, find_column(task.table, self.params.column)
        kind = column.type
        if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
            msg = f"the column {self.params.column!r} holds {kind}, not lists of objects"
            raise TypeError(msg)
        chats = [self._render(messages or []) for messages in column.to_pylist()]
        texts = [chat.text for chat in chats]
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        tokens = [encoding.ids for encoding in encodings]
        masks = list(map(find_mask, chats, encodings))
        self.count("tokens", sum(map(len, tokens)))
        self.count("tokens to be learned", sum(map(sum, masks)))
        table = set_column(table, "tokens", tokens, pa.list_(pa.int32()))
        table = set_column(table, "mask", masks, pa.list_(pa.bool_()))
        return task.replace(set_column(table, "token_count", list(map(len, tokens)), pa.int64()))

    def _render(self, messages: Sequence[dict[str, Any]]) -> RenderedChat:
        # Arrow fills missing fields of a struct with null, but templates test whether a field
        # exists.
        known = [
            {name: value for name, value in message.items() if value is not None}
            for message in messages
        ]
        for at, message in enumerate(known):
            content = str(message.get("content", ""))
            found = next((token for token in self._special if token in content), None)
            if found is not None:
                # The tokenizer would read the text as a special token, which could end the turn and
                # start a message of another role.
                msg = f"message {at} has the special token {found!r} in its text"
                raise ChatError(msg)
        return self._template.render(known, self.params.roles)


def find_mask(chat: RenderedChat, encoding: Encoding) -> list[bool]:
    """Return for each token whether a message of the requested roles contains the whole token."""
    return [
        any(first <= begin < end <= last for first, last in chat.spans)
        for begin, end in encoding.offsets
    ]
