"""Reads servers' error descriptions: codes, messages, and the implied HTTP status.

This module does no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

_SHOWN = 300  # characters of a server's message
_CODES = ("code", "type", "status", "status_code", "error_code")
_MESSAGES = ("message", "msg", "detail", "error_msg", "status_msg", "error_description", "title")
_NESTED = ("error", "innererror", "metadata", "base_resp")
_FIRST_STATUS, _LAST_STATUS = 400, 599
# HTTP statuses that textual error codes imply, by a substring of the code.
_STATUS_WORDS = (
    ("quota", 402),
    ("billing", 402),
    ("balance", 402),
    ("credit", 402),
    ("rate_limit", 429),
    ("ratelimit", 429),
    ("too_many_requests", 429),
    ("resource_exhausted", 429),
    ("throttl", 429),
    ("overloaded", 503),
    ("unavailable", 503),
    ("capacity", 503),
    ("timeout", 504),
    ("deadline", 504),
    ("api_key", 401),
    ("authentication", 401),
    ("unauthenticated", 401),
    ("unauthorized", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("not_found", 404),
    ("context_length", 400),
    ("invalid", 400),
    ("bad_request", 400),
)


class ServerError(NamedTuple):
    """An error as described by a server.

    Attributes:
        codes: textual error codes, in lower case.
        status: HTTP status implied by the codes, or None.
        message: the server's message; empty if there is no message.
    """

    codes: frozenset[str]
    status: int | None
    message: str

    @property
    def has_words(self) -> bool:
        """Return whether the server describes an error at all."""
        return bool(self.codes or self.status or self.message)


def read_error(body: bytes) -> ServerError:
    """Return the error described in a body, in the protocol's form or a similar one."""
    try:
        return describe_error(read_json(body))
    except ValueError:
        return ServerError(frozenset(), None, "")


def read_json(body: bytes) -> object:
    """Return the JSON value of a body.

    Raises:
        ValueError: the body is not valid JSON.
    """
    try:
        value: object = json.loads(body)
    except RecursionError:
        msg = "it is nested too deeply"
        raise ValueError(msg) from None
    return value


def describe_error(value: object) -> ServerError:
    """Return the error that a JSON value describes."""
    parts = list(_list_parts(value))
    codes = [part.get(name) for part in parts for name in _CODES]
    words = frozenset(code.lower() for code in codes if code and isinstance(code, str))
    statuses = [status for code in codes if (status := _read_status(code)) is not None]
    messages = [part[name] for part in parts for name in _MESSAGES if part.get(name)]
    message = messages[0] if messages else value if isinstance(value, str) else ""
    if not messages:  # `{"error": "the model is overloaded"}`
        texts = [part["error"] for part in parts if isinstance(part.get("error"), str)]
        message = texts[0] if texts else message
    return ServerError(words, statuses[0] if statuses else None, cut(message))


def read_text(body: bytes) -> str:
    """Return the beginning of a body that is plain text; empty for a page of HTML."""
    # A character has up to 4 bytes in UTF-8.
    text = body[: 4 * _SHOWN].decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else cut(text)


def cut(text: object) -> str:
    """Shorten a server's message to one line of valid Unicode."""
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return clean(" ".join(shown.split())[:_SHOWN])


def clean(text: str) -> str:
    """Replace the characters that files cannot hold with question marks."""
    return text.encode("utf-8", "replace").decode()


def _list_parts(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that may describe an error, the innermost first."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, Mapping):
        return
    errors = value.get("errors")
    if isinstance(errors, list):
        yield from _list_parts(errors)
    for name in _NESTED:
        yield from _list_parts(value.get(name))
    yield value


def _read_status(code: object) -> int | None:
    """Return the HTTP status implied by a code, if any."""
    # `bool` is a subclass of `int`.
    if isinstance(code, bool) or not isinstance(code, int | str):
        return None
    text = str(code)
    # Codes such as "429" are statuses; other numbers have a meaning of the vendor's own.
    if re.fullmatch(r"\d{3}", text):
        number = int(text)
        return number if _FIRST_STATUS <= number <= _LAST_STATUS else None
    word = text.lower()
    return next((status for part, status in _STATUS_WORDS if part in word), None)


def name_status(status: int) -> str:
    """Return the standard phrase of an HTTP status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "without words"
