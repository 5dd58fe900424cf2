"""Verdicts on answers of servers that speak OpenAI's protocol, each in its own way.

Pure: bytes in, verdicts out. It must not know how a request travels, nor what follows.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from strandline.stages.models.asking.answers import (
    Barred,
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    Setback,
    Unanswered,
    Unfit,
    Usage,
    Verdict,
)
from strandline.stages.models.asking.traffic.pace import read_hold
from strandline.stages.models.asking.verdicts.contents import find_text_fault, read_text_content
from strandline.stages.models.asking.verdicts.endings import find_ending_fault
from strandline.stages.models.asking.verdicts.refusal_words import (
    ServerError,
    clean,
    cut,
    describe_error,
    name_status,
    read_error,
    read_json,
    read_text,
)

_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_FILTERS = ("content_filter", "content_policy", "responsibleai", "moderation", "data_inspection")
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, 529})
# Statuses that may pass, and are no fault of the request.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
_FIRST_OF_SERVERS = 500
_LARGEST = 3.4028235e38  # number that the column of an embedding can hold
_MOST_TOKENS = 1 << 40
BYTES_OF_TOKEN = 4  # a guess
_PICTURE = re.compile(rb'"data:[^"]*"')  # which has fewer tokens than bytes


def judge(reply: Reply | Unanswered, endpoint: Endpoint) -> Verdict:
    """Return what an answer over HTTP means for the row, and for those after it."""
    if isinstance(reply, Unanswered):
        return Setback(reply.what, is_late=reply.is_late)
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return _judge_success(reply, endpoint)
    return _judge_error(reply, reply.status, read_error(reply.body))


def find_usage(reply: Reply | Unanswered, verdict: Verdict, content: bytes, expected: int) -> Usage:
    """Return the tokens that a request has cost; estimated if the server does not report them.

    An error costs nothing. A connection that was lost may have cost an answer.

    Args:
        content: of the request.
        expected: tokens of a request like others.
    """
    if isinstance(verdict, ModelAnswer) and verdict.prompt_tokens + verdict.completion_tokens:
        return Usage(verdict.prompt_tokens, verdict.completion_tokens)
    prompt = len(_PICTURE.sub(b"", content)) // BYTES_OF_TOKEN
    if isinstance(reply, Unanswered):
        lost = Usage(prompt, max(0, expected - prompt), is_known=False)
        return lost if reply.was_sent else Usage()
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return Usage()
    try:
        found = read_json(reply.body)
    except ValueError:
        found = None
    if isinstance(found, Mapping):
        usage = _read_usage(found)
        items = found.get("choices") or found.get("data")
        if usage != Usage() or _find_error(found, items) is not None:
            return usage
        if found.get("data"):  # an embedding has no tokens, however long it is
            return Usage(prompt, 0, is_known=False)
    return Usage(prompt, len(reply.body) // BYTES_OF_TOKEN, is_known=False)


def find_answer_fault(answer: ModelAnswer) -> RowFault | None:
    """Return why an answer of a log is not good, or None if it is: an earlier version kept it."""
    if answer.vector is None:
        return find_ending_fault(answer.finish) or find_text_fault(answer.text)
    judged = _judge_vector(answer.vector.tolist(), Usage(), "")
    return judged if isinstance(judged, RowFault) else None


def _read_usage(answer: Mapping[str, Any]) -> Usage:
    """Return the tokens that an answer reports; none if it reports none."""
    used = answer.get("usage")
    if not isinstance(used, Mapping):
        return Usage()
    prompt = _read_count(used, "prompt_tokens", "input_tokens")
    completion = _read_count(used, "completion_tokens", "output_tokens")
    # The total has tokens of reasoning that some servers count nowhere else.
    return Usage(prompt, max(completion, _read_count(used, "total_tokens") - prompt))


def _read_count(used: Mapping[str, Any], *names: str) -> int:
    for name in names:
        number = used.get(name)
        if isinstance(number, int | float) and 0 < number < _MOST_TOKENS:
            return int(number)
    return 0


def _judge_error(reply: Reply, status: int, error: ServerError) -> Verdict:
    words = error.message or (read_text(reply.body) if status == reply.status else "")
    what = f"{status}: {words}" if words else f"{status} {name_status(status)}"
    if any(part in code for code in error.codes for part in _FILTERS):
        return RowFault("refused", f"the server refuses the prompt ({what})")
    barred = _find_bar(reply, status, error, what)
    if barred is not None:
        return barred
    is_busy = status in _BUSY
    if is_busy or status >= _FIRST_OF_SERVERS or status in _PASSING:
        return Setback(what, is_busy=is_busy, hold=read_hold(reply.headers))
    return Unfit(what)


def _find_bar(reply: Reply, status: int, error: ServerError, what: str) -> Barred | None:
    """Return why nothing can be asked here, or None if something can."""
    if status == HTTPStatus.PAYMENT_REQUIRED or _QUOTA.intersection(error.codes):
        return Barred(f"there is no quota left ({what})", is_sure=True, words=what)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Barred(f"it refuses the key ({what})", is_sure=True, words=what)
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        msg = f"it has no such model or address ({what})"
        return Barred(msg, is_sure=error.has_words, words=what)
    if status < HTTPStatus.BAD_REQUEST:
        to = cut(reply.headers.get("location", "elsewhere"))
        msg = f"it leads to {to} ({status}); name that in `url`"
        return Barred(msg, is_sure=True, words=what)
    return None


def _judge_success(reply: Reply, endpoint: Endpoint) -> Verdict:
    """Return the verdict on a body that came with a good status, which may hold an error."""
    name = "data" if endpoint is Endpoint.EMBEDDINGS else "choices"
    try:
        found = read_json(reply.body)
    except ValueError:
        return _describe_foreign(read_text(reply.body))
    if isinstance(found, list) and len(found) == 1:  # as Google's servers send errors
        found = found[0]
    if not isinstance(found, Mapping):
        return _describe_foreign(cut(found))
    items = found.get(name)
    item = items[0] if isinstance(items, list) and items else None
    error = _find_error(found, items) or _find_error(item, item)
    if error is not None:
        status = error.status or HTTPStatus.INTERNAL_SERVER_ERROR
        return _judge_error(reply, status, error)
    if not isinstance(item, Mapping):
        return _describe_foreign("")
    usage, model = _read_usage(found), clean(str(found.get("model") or ""))
    if endpoint is Endpoint.EMBEDDINGS:
        return _judge_vector(item.get("embedding"), usage, model)
    return _judge_choice(item, endpoint, usage, model)


def _find_error(found: object, items: object) -> ServerError | None:
    """Return the error inside a body or an answer, or None if there is none.

    Args:
        items: the answers beside it; without any, words of the server are an error.
    """
    if not isinstance(found, Mapping):
        return None
    if found.get("error"):
        return describe_error({"error": found["error"]})
    error = describe_error(found) if not items else None
    return error if error is not None and error.has_words else None


def _describe_foreign(words: str) -> Setback:
    more = f": {words}" if words else ""
    return Setback(f"an answer that is not of OpenAI's protocol{more}")


def _judge_choice(
    choice: Mapping[str, Any], endpoint: Endpoint, usage: Usage, model: str
) -> Verdict:
    message = (
        choice.get("message") if endpoint is Endpoint.CHAT else {"content": choice.get("text")}
    )
    finish = choice.get("finish_reason")
    if not isinstance(message, Mapping):
        return _describe_foreign("")
    content = read_text_content(message)
    if content.refusal:
        why = f"the model refuses to answer: {cut(content.refusal)}"
        return RowFault("refused", why, content.refusal)
    if not isinstance(finish, str):
        return Setback("an answer without a reason to finish")
    fault = find_ending_fault(cut(finish)) or content.fault or find_text_fault(content.text)
    if fault is not None:
        return fault._replace(answer=content.text or json.dumps(message, ensure_ascii=False))
    return ModelAnswer(content.text, None, finish, usage.prompt, usage.completion, model)


def _judge_vector(vector: object, usage: Usage, model: str) -> Verdict:
    if not isinstance(vector, list):
        return _describe_foreign("")
    if not vector:
        return RowFault("malformed", "the embedding is empty")
    numbers = [_read_number(number) for number in vector]
    kept = [number for number in numbers if number is not None]
    if len(kept) < len(numbers):
        at = numbers.index(None)
        msg = f"the embedding has {cut(vector[at])} at position {at}, which is no number to keep"
        return RowFault("malformed", msg, json.dumps(vector))
    return ModelAnswer("", array("d", kept), "stop", usage.prompt, usage.completion, model)


def _read_number(number: object) -> float | None:
    """Return a number that the column of an embedding can hold, or None if it is none."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # An integer may be too large for a float, and NaN compares as no number.
    return float(number) if -_LARGEST <= number <= _LARGEST else None
