"""An answer of a server, and the verdicts on it.

Pure data. It must not know how a request travels, nor what follows from a verdict.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Endpoint(StrEnum):
    """Which request is made: three of OpenAI's protocol, and Anthropic's `messages`."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"


BYTES_OF_TOKEN = 4  # a guess
# Endpoints that take a conversation: instructions, pictures, and complaints about an answer.
CONVERSING = frozenset({Endpoint.CHAT, Endpoint.MESSAGES})


class PromptError(ValueError):
    """A row of which no prompt can be made."""


class Reply(NamedTuple):
    """What came back over HTTP; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(NamedTuple):
    """No whole answer came back.

    Attributes:
        what: happened instead, in a few words.
        is_late: it took longer than it may.
        was_sent: the server may have worked on it.
    """

    what: str
    is_late: bool = False
    was_sent: bool = True


class ModelAnswer(NamedTuple):
    """A whole answer.

    Attributes:
        text: of the model; empty for an embedding.
        vector: the embedding, 8 bytes a number; None for text.
        finish: why the model stopped.
        prompt_tokens, completion_tokens: as the server counts.
        model: as the server calls it.
    """

    text: str
    vector: array[float] | None
    finish: str
    prompt_tokens: int
    completion_tokens: int
    model: str


class Usage(NamedTuple):
    """Tokens of a request.

    Attributes:
        prompt, completion: as the server counts, or estimated.
        is_known: the server has reported them.
    """

    prompt: int = 0
    completion: int = 0
    is_known: bool = True


class RowFault(NamedTuple):
    """Why a row has no answer.

    Attributes:
        kind: one of a few words, by which they are counted.
        message: one sentence.
        answer: that the server gave, if it is not good; empty if there was none.
    """

    kind: str
    message: str
    answer: str = ""


class Setback(NamedTuple):
    """Nothing that says something of the row: it is asked again.

    Attributes:
        what: came instead.
        is_busy: the server has too much to do, which is no fault of the request.
        is_late: it took longer than it may.
        hold: seconds for which it wants to be left alone; None: it does not say.
    """

    what: str
    is_busy: bool = False
    is_late: bool = False
    hold: float | None = None


class Barred(NamedTuple):
    """Nothing can be asked here, whatever the row, unless the server answers other rows.

    Attributes:
        what: the reason to stop.
        is_sure: the server gives it in the protocol's form, and not a proxy before it.
        words: of the server, for a row that is refused alone.
    """

    what: str
    is_sure: bool
    words: str


class Unfit(NamedTuple):
    """The server takes no such request: one row's, or all."""

    what: str


Verdict = ModelAnswer | RowFault | Setback | Barred | Unfit
