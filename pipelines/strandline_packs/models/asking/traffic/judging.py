"""Judges the answers of servers, according to their protocols.

This module takes bytes, returns verdicts, and does no I/O. The module must not depend on how
requests travel, or the consequences of a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus

from strandline_packs.models.asking.answers import (
    BYTES_OF_TOKEN,
    Endpoint,
    ModelAnswer,
    Reply,
    RowFault,
    ServerRefusal,
    Setback,
    UnansweredRequest,
    Unfit,
    Usage,
    Verdict,
)
from strandline_packs.models.asking.protocols.index import find_protocol
from strandline_packs.models.asking.protocols.port import AnswerParts
from strandline_packs.models.asking.traffic.pace import read_hold
from strandline_packs.models.asking.verdicts.messages import describe_foreign
from strandline_packs.models.asking.verdicts.refusal_words import (
    ServerError,
    clean,
    cut,
    describe_error,
    name_status,
    read_error,
    read_json,
    read_text,
)

# Codes of an exhausted quota. Servers send them with status 429, like a temporary rate limit.
_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_FILTERS = ("content_filter", "content_policy", "responsibleai", "moderation", "data_inspection")
# 529 is Anthropic's status for an overloaded server.
_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, 529})
# Statuses that are usually transient and not the fault of the request.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
_FIRST_OF_SERVERS = 500
_PICTURE = re.compile(rb'"data:[^"]*"')  # a picture has fewer tokens than `BYTES_OF_TOKEN` suggests


def judge(reply: Reply | UnansweredRequest, endpoint: Endpoint, expected: int = 1) -> Verdict:
    """Return the verdict on an HTTP response, which concerns the row or all requests.

    Args:
        expected: how many answers the request asked for.
    """
    if isinstance(reply, UnansweredRequest):
        return Setback(reply.what, is_late=reply.is_late)
    if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return _judge_success(reply, endpoint, expected)
    return _judge_error(reply, reply.status, read_error(reply.body))


def find_usage(
    reply: Reply | UnansweredRequest,
    verdict: Verdict,
    content: bytes,
    expected: int,
    endpoint: Endpoint,
) -> Usage:
    """Return the tokens used by a request, estimated if the server does not report them.

    An error costs nothing. If the connection was lost, the server may have charged for a complete
    answer, so the result is an estimate.

    Args:
        content: body of the request.
        expected: typical tokens of a request.
        endpoint: endpoint of the request.
    """
    if isinstance(verdict, ModelAnswer) and verdict.prompt_tokens + verdict.completion_tokens:
        return Usage(verdict.prompt_tokens, verdict.completion_tokens)
    prompt = len(_PICTURE.sub(b"", content)) // BYTES_OF_TOKEN
    if isinstance(reply, UnansweredRequest):
        lost = Usage(prompt, max(0, expected - prompt), is_known=False)
        return lost if reply.was_sent else Usage()
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return Usage()
    try:
        found = read_json(reply.body)
    except ValueError:
        found = None
    if isinstance(found, Mapping):
        protocol = find_protocol(endpoint)
        usage, items = protocol.read_usage(found), protocol.find_items(found, endpoint)
        if usage != Usage() or _find_error(found, items) is not None:
            return usage
        if items and endpoint is Endpoint.EMBEDDINGS:  # the answer is a vector, which has no tokens
            return Usage(prompt, 0, is_known=False)
    return Usage(prompt, len(reply.body) // BYTES_OF_TOKEN, is_known=False)


def _judge_error(reply: Reply, status: int, error: ServerError) -> Verdict:
    words = error.message or (read_text(reply.body) if status == reply.status else "")
    what = f"{status}: {words}" if words else f"{status} {name_status(status)}"
    if any(part in code for code in error.codes for part in _FILTERS):
        return RowFault("refused", f"the server rejects the prompt ({what})")
    barred = _find_bar(reply, status, error, what)
    if barred is not None:
        return barred
    is_busy = status in _BUSY
    if is_busy or status >= _FIRST_OF_SERVERS or status in _PASSING:
        return Setback(what, is_busy=is_busy, hold=read_hold(reply.headers))
    return Unfit(what)


def _find_bar(reply: Reply, status: int, error: ServerError, what: str) -> ServerRefusal | None:
    """Return a refusal if the error means that the server rejects all requests, or None."""
    if status == HTTPStatus.PAYMENT_REQUIRED or _QUOTA.intersection(error.codes):
        return ServerRefusal(f"the quota is used up ({what})", is_sure=True, words=what)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return ServerRefusal(f"the server rejects the key ({what})", is_sure=True, words=what)
    if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        msg = f"the server has no such model or address ({what})"
        # A 404 without a message in the protocol's form may come from a proxy.
        return ServerRefusal(msg, is_sure=error.has_words, words=what)
    if status < HTTPStatus.BAD_REQUEST:
        to = cut(reply.headers.get("location", "elsewhere"))
        msg = f"the server redirects to {to} ({status}); set `url` to that address"
        return ServerRefusal(msg, is_sure=True, words=what)
    return None


def _judge_success(reply: Reply, endpoint: Endpoint, expected: int) -> Verdict:
    """Return the verdict on a body with a success status. The body may still contain an error."""
    protocol = find_protocol(endpoint)
    try:
        found = read_json(reply.body)
    except ValueError:
        return describe_foreign(protocol.name, read_text(reply.body))
    if isinstance(found, list) and len(found) == 1:  # Google's servers wrap errors in a list
        found = found[0]
    if not isinstance(found, Mapping):
        return describe_foreign(protocol.name, cut(found))
    items = protocol.find_items(found, endpoint)
    item = items[0] if isinstance(items, list) and items else None
    error = _find_error(found, items) or _find_error(item, item)
    if error is not None:
        # An error below a good status may have no status: treat the error as transient.
        status = error.status or HTTPStatus.INTERNAL_SERVER_ERROR
        return _judge_error(reply, status, error)
    if not isinstance(item, Mapping):
        return describe_foreign(protocol.name)
    model = clean(str(found.get("model") or ""))
    parts = items if isinstance(items, list) else ()
    return protocol.judge(AnswerParts(found, item, model, parts, expected), endpoint)


def _find_error(found: object, items: object) -> ServerError | None:
    """Return the error inside a body or an answer, or None if there is no error.

    Args:
        items: answers in the same body; if there are none, a message of the server is an error.
    """
    if not isinstance(found, Mapping):
        return None
    if found.get("error"):
        return describe_error({"error": found["error"]})
    error = describe_error(found) if not items else None
    return error if error is not None and error.has_words else None
