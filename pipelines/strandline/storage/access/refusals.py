"""Refused access to stores: recognizes and explains the errors of each store's library.

Rejected credentials end a run at once, because every other file would be rejected too. A missing
permission may affect a single file, so it fails only the source of that file. The module must not
depend on how a store is opened or on the request.
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

# Error classes of the libraries of S3, Google, and Azure for missing or invalid credentials.
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
# Google's answer to anonymous callers. Other files may be public, so this is no rejection.
_ANONYMOUS = re.compile("anonymous caller", re.IGNORECASE)
# Google's library retries this answer, with pauses that grow to half a minute.
_TRIED_AGAIN = "Invalid Credentials"
_REFUSED_IN_A_ROW = 3
_SHOWN = 300  # characters of an answer in an unknown format
# Text that Azure's library appends to the server's message.
_APPENDED = re.compile(r"\s*\b(?:RequestId|Time|ErrorCode|Content)\s*:.*", re.DOTALL)


class StoreRefusesError(OSError):
    """A store refuses access: credentials are missing, or they lack permission."""


class TokenRefusedError(StoreRefusesError):
    """Google's store rejects a token."""

    status = HTTPStatus.UNAUTHORIZED


class _Response(Protocol):
    """The parts of an HTTP response that `GoogleAnswers` uses."""

    status: int

    async def text(self) -> str:
        """Return the content. Repeated calls are allowed."""


class GoogleAnswers:
    """Stops retries of Google's library, which would last for minutes, after rejected tokens.

    A few rejections are tolerated, because the store sometimes rejects a valid token for a moment.
    """

    def __init__(self) -> None:
        self._refused = 0  # in a row

    async def __call__(self, response: _Response) -> None:
        """Check a response.

        Raises:
            StoreRefusesError: if the response rejects the credentials repeatedly or for good.
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
    """A store rejects the credentials; they may have expired."""

    is_lasting = True


def is_refusal(error: BaseException) -> bool:
    """Return True if a store's error is a refusal of access."""
    is_unauthorised = any(code in _REFUSED for code in _list_numbers(error))
    return is_unauthorised or isinstance(error, PermissionError) or is_rejection(error)


def is_rejection(error: BaseException) -> bool:
    """Return True if a store's error rejects the credentials altogether.

    Return False if the account is valid but lacks permission for the request.
    """
    return any(map(_rejects, _trace(error)))


def _rejects(error: BaseException) -> bool:
    # Google's library marks errors of the token service that may pass.
    if getattr(error, "retryable", False) or _ANONYMOUS.search(str(error)):
        return False
    is_unauthorised = HTTPStatus.UNAUTHORIZED in _list_numbers(error)
    return is_unauthorised or _lacks(error) or _name_code(error) in _CODES


def _lacks(error: BaseException) -> bool:
    return any(kind.__name__ in _LACKS for kind in type(error).__mro__)


def _list_numbers(error: BaseException) -> list[Any]:
    # The libraries have different names for the HTTP status.
    return [getattr(error, name, None) for name in ("code", "status", "status_code")]


def _name_code(error: BaseException) -> str:
    """Return the error code of S3 or Azure, or an empty string if there is none."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return str(response.get("Error", {}).get("Code", ""))
    # Azure's library has a code as text, or as a member of an enumeration.
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
    # Google's library wraps errors of the token service in an error with only a number.
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
    """Describe a store's error in parentheses, with advice for rejected credentials."""
    described = f"({describe_store_error(error)})"
    return f"{described}; {ADVICE}" if is_rejection(error) else described


@contextmanager
def naming_rejection(url: str) -> Iterator[None]:
    """Turn a rejection of credentials by a store's library into an error that names `url`.

    All other errors pass unchanged.
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
    """Return a readable error for a rejection of credentials."""
    msg = f"{url}: the store rejects the credentials {explain_store_error(error)}"
    return CredentialsRefusedError(msg)
