"""Recognizes and explains errors of store libraries about refused access.

Rejected credentials end a run immediately, because the store would reject every other file too. A
missing permission may affect a single file, so it fails only the source of that file. The module
must not depend on how a store is opened, or on the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Protocol

from strandline.plan.errors import StrandlineError
from strandline.storage.errors import VolumeError

ADVICE = "provide valid credentials and run again; finished sources are kept"

# Error classes of the S3, Google, and Azure libraries for missing or invalid credentials.
_LACKS = frozenset(
    {
        "ClientAuthenticationError",
        "CredentialRetrievalError",
        "DefaultCredentialsError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "RefreshError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
# Error codes of S3 and Azure for rejected credentials. Google's stores return only the status.
_CODES = frozenset(
    {
        "AccountIsDisabled",
        "AuthenticationFailed",
        "AuthorizationFailure",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidAuthenticationInfo",
        "InvalidToken",
        "KeyBasedAuthenticationNotPermitted",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
# HTTP statuses for refused access; some libraries have no error class for them.
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
# Google's response to anonymous callers. Other files may be public, so the response does not count
# as rejected credentials.
_ANONYMOUS = re.compile("anonymous caller", re.IGNORECASE)
# Google's library retries after this response, with pauses that grow to half a minute.
_TRIED_AGAIN = "Invalid Credentials"
_REFUSED_IN_A_ROW = 3
_SHOWN = 300  # number of characters to show of a response in an unknown format
# Text that Azure's library appends to the server's message.
_APPENDED = re.compile(r"\s*\b(?:RequestId|Time|ErrorCode|Content)\s*:.*", re.DOTALL)


class StoreRefusesError(OSError):
    """Raised if a store refuses access: credentials are missing, or they lack permission."""


class TokenRefusedError(StoreRefusesError):
    """Raised if Google's store rejects a token."""

    status = HTTPStatus.UNAUTHORIZED


class _Response(Protocol):
    """The parts of an HTTP response that `GoogleAnswers` reads."""

    status: int

    async def text(self) -> str:
        """Return the content. The method can be called more than once."""


class GoogleAnswers:
    """Checks responses of Google's store, to stop minutes of retries after rejected tokens.

    A few rejections are tolerated, because the store sometimes rejects a valid token for a moment.
    """

    def __init__(self) -> None:
        self._refused = 0  # consecutive rejections

    async def __call__(self, response: _Response) -> None:
        """Check a response.

        Raises:
            TokenRefusedError: after several rejections in a row, or after a single rejection that
                the
                library does not retry.
        """
        if response.status != HTTPStatus.UNAUTHORIZED:
            self._refused = 0
            return
        message = await response.text()
        self._refused += 1
        if self._refused >= _REFUSED_IN_A_ROW or _TRIED_AGAIN not in message:
            raise TokenRefusedError(_find_message(message))


def _find_message(message: str) -> str:
    try:
        return str(json.loads(message)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return message[:_SHOWN]


class CredentialsRefusedError(StrandlineError):
    """Raised if a store rejects the credentials, which may have expired."""

    is_lasting = True


def is_refusal(error: BaseException) -> bool:
    """Return True if a store's error means refused access."""
    is_unauthorised = any(code in _REFUSED for code in _list_numbers(error))
    return is_unauthorised or isinstance(error, PermissionError) or is_rejection(error)


def is_rejection(error: BaseException) -> bool:
    """Return True if a store's error means that the credentials are invalid.

    Return False if the credentials are valid but lack permission for the request.
    """
    return any(map(_rejects, _trace(error)))


def _rejects(error: BaseException) -> bool:
    # Google's library marks temporary errors of the token service as retryable.
    if getattr(error, "retryable", False) or _ANONYMOUS.search(str(error)):
        return False
    is_unauthorised = HTTPStatus.UNAUTHORIZED in _list_numbers(error)
    return is_unauthorised or _lacks(error) or _name_code(error) in _CODES


def _lacks(error: BaseException) -> bool:
    return any(kind.__name__ in _LACKS for kind in type(error).__mro__)


def _list_numbers(error: BaseException) -> list[Any]:
    # Each library has a different attribute name for the HTTP status.
    return [getattr(error, name, None) for name in ("code", "status", "status_code")]


def _name_code(error: BaseException) -> str:
    """Return the error code of S3 or Azure, or an empty string if there is none."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return str(response.get("Error", {}).get("Code", ""))
    # Azure's library stores the code as text, or as a member of an enumeration.
    code = getattr(error, "error_code", "")
    return str(getattr(code, "value", code))


def _trace(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def describe_store_error(error: BaseException) -> str:
    """Describe a store's error in one line.

    Return the name of the error's class if it has no message.
    """
    # Describe the inner error: Google's library wraps errors of the token service in an error that
    # contains only a number.
    error = next(filter(_lacks, _trace(error)), error)
    message = str(error.args[0] if _lacks(error) and error.args else error)
    if hasattr(error, "error_code"):
        message = _APPENDED.sub("", message)
    return " ".join(message.split()) or type(error).__name__


def explain_unwritten(url: str, error: BaseException) -> StrandlineError:
    """Return a readable error for a store's failure to write or remove a file."""
    if is_rejection(error):
        return reject(url, error)
    return VolumeError(f"{url}: can't be written to ({describe_store_error(error)})")


def explain_store_error(error: BaseException) -> str:
    """Describe a store's error in parentheses, with advice if the credentials were rejected."""
    described = f"({describe_store_error(error)})"
    return f"{described}; {ADVICE}" if is_rejection(error) else described


@contextmanager
def naming_rejection(url: str) -> Iterator[None]:
    """Replace a store library's error about rejected credentials with an error that names `url`.

    All other errors are raised unchanged.
    """
    try:
        yield
    except StrandlineError:
        raise
    except Exception as error:  # each store library has its own error classes
        if not is_rejection(error):
            raise
        raise reject(url, error) from error


def reject(url: str, error: BaseException) -> CredentialsRefusedError:
    """Return a readable error that names the URL and the rejected credentials."""
    msg = f"{url}: the store rejects the credentials {explain_store_error(error)}"
    return CredentialsRefusedError(msg)
