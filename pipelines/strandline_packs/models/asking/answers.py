"""Answers of a model server, and the results of judging them.

This module contains only plain data. It must not depend on how requests travel, or the consequences
of a verdict.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Endpoint(StrEnum):
    """Kind of request: three endpoints of OpenAI's protocol, and Anthropic's `messages`."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"


BYTES_OF_TOKEN = 4  # rough estimate
# Endpoints that accept a conversation: instructions, pictures, and requests to correct an answer.
CONVERSING = frozenset({Endpoint.CHAT, Endpoint.MESSAGES})


class PromptError(ValueError):
    """Raised if the stage can't build a prompt from a row."""


class Reply(NamedTuple):
    """An HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class UnansweredRequest(NamedTuple):
    """A request without a complete response.

    Attributes:
        what: short description of the failure.
        is_late: whether the request timed out.
        was_sent: whether the server may have processed the request.
    """

    what: str
    is_late: bool = False
    was_sent: bool = True


class ModelAnswer(NamedTuple):
    """A complete answer of a model server.

    Attributes:
        text: text from the model; empty for an embedding.
        vector: the embedding as 64-bit floats; None for text.
        finish: the model's finish reason.
        prompt_tokens, completion_tokens: token counts from the server.
        model: the server's name for the model.
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
        prompt, completion: token counts from the server, or estimates.
        is_known: whether the server reported the counts.
    """

    prompt: int = 0
    completion: int = 0
    is_known: bool = True


class RowFault(NamedTuple):
    """Reason why a row has no answer.

    Attributes:
        kind: category of the fault, used in counters.
        message: one sentence.
        answer: the server's answer that was rejected; empty if there is no answer.
    """

    kind: str
    message: str
    answer: str = ""


class Setback(NamedTuple):
    """A failed try that does not prove the row to be at fault, so the request is retried.

    Attributes:
        what: short description of the failure.
        is_busy: whether the server is overloaded, which is not the request's fault.
        is_late: whether the request timed out.
        hold: pause that the server requests, in seconds, or None.
    """

    what: str
    is_busy: bool = False
    is_late: bool = False
    hold: float | None = None


class ServerRefusal(NamedTuple):
    """A refusal that applies to all requests, unless the server turns out to answer other rows.

    Attributes:
        what: reason to stop.
        is_sure: whether the reason has the protocol's form, which rules out a proxy as the sender.
        words: the server's message, used if the server refuses only this row.
    """

    what: str
    is_sure: bool
    words: str


class Unfit(NamedTuple):
    """The server rejects a request as invalid. Either this row or all requests are at fault."""

    what: str


Verdict = ModelAnswer | RowFault | Setback | ServerRefusal | Unfit
