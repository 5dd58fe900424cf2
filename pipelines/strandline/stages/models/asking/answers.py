"""What a server of OpenAI's protocol has answered: told apart, and never kept where it is not good.

Pure: bytes in, verdicts out. It must not know how a request travels, nor what follows from one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple

from strandline.stages.models.asking.pace import read_hold

_SHOWN = 300  # characters of what a server says
_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_FILTER = "content_filter"
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, 529})
# Statuses that may pass, and are no fault of the request.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
_FIRST_OF_SERVERS = 500
# Reasons to finish with which there is no whole answer.
_UNFINISHED = {
    "length": "the answer was cut short: it came to the most tokens that it may have",
    _FILTER: "the server's filter of contents cut the answer off",
    "tool_calls": "the model called a tool instead of answering",
    "function_call": "the model called a function instead of answering",
    "error": "the server ended the answer with an error",
    "abort": "the server broke the answer off",
}


class Endpoint(StrEnum):
    """Which of the protocol's requests is made."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


PATHS = {
    Endpoint.CHAT: "chat/completions",
    Endpoint.COMPLETIONS: "completions",
    Endpoint.EMBEDDINGS: "embeddings",
}


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
    """

    what: str
    is_late: bool = False


class ModelAnswer(NamedTuple):
    """A whole answer.

    Attributes:
        text: of the model; empty for an embedding.
        vector: the embedding; None for text.
        finish: why the model stopped.
        prompt_tokens, completion_tokens: as the server counts.
        model: as the server calls it.
    """

    text: str
    vector: list[float] | None
    finish: str
    prompt_tokens: int
    completion_tokens: int
    model: str


class Usage(NamedTuple):
    """Tokens of a prompt and of what came back, as the server counts."""

    prompt: int = 0
    completion: int = 0


class RowFault(NamedTuple):
    """Why a row has no answer.

    Attributes:
        kind: one of a few words, by which they are counted.
        message: one sentence.
    """

    kind: str
    message: str


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
    """Nothing can be asked here, whatever the row.

    Attributes:
        what: the server says.
        is_sure: it says so in the protocol's own form, and not something that stands before it.
    """

    what: str
    is_sure: bool


class Unfit(NamedTuple):
    """The server takes no such request: one row's, or all."""

    what: str


Verdict = ModelAnswer | RowFault | Setback | Barred | Unfit


def judge(reply: Reply | Unanswered, endpoint: Endpoint) -> Verdict:
    """Return what an answer over HTTP means for the row, and for those after it."""
    if isinstance(reply, Unanswered):
        return Setback(reply.what, is_late=reply.is_late)
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return _judge_answer(reply.body, endpoint)
    return _judge_error(reply)


def find_usage(reply: Reply | Unanswered, verdict: Verdict) -> Usage:
    """Return the tokens that a request has cost, whether its answer is good or not."""
    if isinstance(verdict, ModelAnswer):
        return Usage(verdict.prompt_tokens, verdict.completion_tokens)
    if isinstance(reply, Unanswered) or reply.status != HTTPStatus.OK:
        return Usage()
    try:
        return _read_usage(json.loads(reply.body))
    except (ValueError, TypeError, AttributeError):
        return Usage()


def _read_usage(answer: Mapping[str, Any]) -> Usage:
    used = answer.get("usage") or {}
    return Usage(
        int(used.get("prompt_tokens") or 0),
        int(used.get("completion_tokens") or 0),
    )


def _judge_error(reply: Reply) -> Verdict:
    status, (codes, message) = reply.status, _read_error(reply.body)
    what = f"{status}: {message}" if message else f"{status} {_name_status(status)}"
    if _FILTER in codes:
        return RowFault("refused", f"the server refuses the prompt ({what})")
    barred = _find_bar(reply, codes, what, has_words=bool(codes or message))
    if barred is not None:
        return barred
    is_busy = status in _BUSY
    if is_busy or status >= _FIRST_OF_SERVERS or status in _PASSING:
        return Setback(what, is_busy=is_busy, hold=read_hold(reply.headers))
    return Unfit(what)


def _find_bar(reply: Reply, codes: frozenset[str], what: str, *, has_words: bool) -> Barred | None:
    """Return why nothing can be asked here; None where something can.

    Args:
        has_words: the server says what is wrong in the protocol's form.
    """
    status = reply.status
    if status == HTTPStatus.PAYMENT_REQUIRED or _QUOTA.intersection(codes):
        return Barred(f"there is no quota left ({what})", is_sure=True)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Barred(f"it refuses the key ({what})", is_sure=True)
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        return Barred(f"it has no such model or address ({what})", is_sure=has_words)
    if status < HTTPStatus.BAD_REQUEST:
        to = reply.headers.get("location", "elsewhere")
        return Barred(f"it leads to {to} ({status}); name that in `url`", is_sure=True)
    return None


def _judge_answer(body: bytes, endpoint: Endpoint) -> Verdict:
    try:
        found = json.loads(body)
        tokens = _read_usage(found)
        model = str(found.get("model") or "")
        if endpoint is Endpoint.EMBEDDINGS:
            vector = [float(number) for number in found["data"][0]["embedding"]]
            return ModelAnswer("", vector, "stop", *tokens, model)
        return _judge_choice(found["choices"][0], endpoint, tokens, model)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return Setback("an answer that is not of OpenAI's protocol")


def _judge_choice(
    choice: Mapping[str, Any], endpoint: Endpoint, tokens: tuple[int, int], model: str
) -> Verdict:
    finish = choice["finish_reason"]
    message = choice["message"] if endpoint is Endpoint.CHAT else {"content": choice["text"]}
    if message.get("refusal"):
        return RowFault("refused", f"the model refuses to answer: {_cut(str(message['refusal']))}")
    if finish in _UNFINISHED:
        kind = {"length": "cut short", _FILTER: "refused"}.get(finish, "malformed")
        return RowFault(kind, _UNFINISHED[finish])
    text = message["content"]
    if not (isinstance(finish, str) and isinstance(text, str)):
        return Setback("an answer without a text, or without a reason to finish")
    return ModelAnswer(text, None, finish, *tokens, model)


def _read_error(body: bytes) -> tuple[frozenset[str], str]:
    """Return codes and message of an error in the protocol's form, or in one of its like."""
    try:
        found = json.loads(body)
    except ValueError:
        return frozenset(), ""
    error = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(error, dict):
        return frozenset(), _cut(str(error))
    inner = error.get("innererror") or {}
    codes = [error.get("code"), error.get("type"), inner.get("code") if inner else None]
    message = error.get("message") or error.get("detail") or ""
    return frozenset(code for code in codes if isinstance(code, str)), _cut(str(message))


def _name_status(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "without words"


def _cut(text: str) -> str:
    return " ".join(text.split())[:_SHOWN]
