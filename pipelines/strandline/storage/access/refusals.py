"""What the libraries of stores say of an account: refused, and why; each has errors of its own.

Credentials that a store refuses end a run at once: every other file would be refused alike. A right
that is missing may be missing for one file, which is for that file's source to say. It must not
know how a store is opened, or what is asked for.
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

ADVICE = "give the run credentials that are valid now; what is finished stays"

# How the libraries of S3, Google's and Azure's stores call it.
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
# Codes of S3 and Azure for a refusal; Google's stores have the number alone.
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
# HTTP's answers about an account; some libraries have errors without a name for it.
_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
# Google's answer to a caller without an account: others of its files may be public.
_ANONYMOUS = re.compile("anonymous caller", re.IGNORECASE)
# Google's library tries these again, with waits that grow to half a minute.
_TRIED_AGAIN = "Invalid Credentials"
_REFUSED_IN_A_ROW = 3
_SHOWN = 300  # characters of an answer that is not of a form that is known
# What Azure's library puts behind what the server says.
_APPENDED = re.compile(r"\s*\b(?:RequestId|Time|ErrorCode|Content)\s*:.*", re.DOTALL)


class StoreRefusesError(OSError):
    """A store does not let us in: no account is set here, or the one that is has no right."""


class TokenRefusedError(StoreRefusesError):
    """Google's answer to a token that its store does not take."""

    status = HTTPStatus.UNAUTHORIZED


class _Response(Protocol):
    """An answer of HTTP, as far as it is judged."""

    status: int

    async def text(self) -> str:
        """Return the content; it can be asked for again."""


class GoogleAnswers:
    """Ends what Google's library would ask for minutes: a token that is not taken is no outage.

    It tries again, since that store now and then refuses a token for a moment.
    """

    def __init__(self) -> None:
        self._refused = 0  # in a row

    async def __call__(self, response: _Response) -> None:
        """Judge an answer.

        Raises:
            StoreRefusesError: it refuses these credentials, and did so before.
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
    """A store refuses the credentials that are here; they may have expired."""

    is_lasting = True


def is_refusal(error: BaseException) -> bool:
    """Return whether a store's error is about the account."""
    is_unauthorised = any(code in _REFUSED for code in _list_numbers(error))
    return is_unauthorised or isinstance(error, PermissionError) or is_rejection(error)


def is_rejection(error: BaseException) -> bool:
    """Return whether a store's error refuses these credentials altogether.

    False where the account is known, and has no right to what is asked for.
    """
    return any(map(_rejects, _trace(error)))


def _rejects(error: BaseException) -> bool:
    if getattr(error, "retryable", False) or _ANONYMOUS.search(str(error)):
        return False
    is_unauthorised = HTTPStatus.UNAUTHORIZED in _list_numbers(error)
    return is_unauthorised or _lacks(error) or _name_code(error) in _CODES


def _lacks(error: BaseException) -> bool:
    return any(kind.__name__ in _LACKS for kind in type(error).__mro__)


def _list_numbers(error: BaseException) -> list[Any]:
    return [getattr(error, name, None) for name in ("code", "status", "status_code")]


def _name_code(error: BaseException) -> str:
    """Return what S3 or Azure calls an error; empty where neither has answered."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return str(response.get("Error", {}).get("Code", ""))
    code = getattr(error, "error_code", "")
    return str(getattr(code, "value", code))


def _trace(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def describe_store_error(error: BaseException) -> str:
    """Describe what a store's library says went wrong, in one line.

    Its kind where it says nothing.
    """
    # Google's library hides behind a number what the service of tokens says.
    error = next(filter(_lacks, _trace(error)), error)
    message = str(error.args[0] if _lacks(error) and error.args else error)
    if hasattr(error, "error_code"):
        message = _APPENDED.sub("", message)
    return " ".join(message.split()) or type(error).__name__


def explain_unwritten(url: str, error: BaseException) -> StrandlineError:
    """Return the sentence for a store's error over what was to be written, or removed."""
    if is_rejection(error):
        return reject(url, error)
    return VolumeError(f"{url}: can't be written to ({describe_store_error(error)})")


def explain_store_error(error: BaseException) -> str:
    """Describe what went wrong in brackets, and what to do about refused credentials."""
    described = f"({describe_store_error(error)})"
    return f"{described}; {ADVICE}" if is_rejection(error) else described


@contextmanager
def naming_rejection(url: str) -> Iterator[None]:
    """Turn a store library's refusal of credentials into a sentence that names `url`.

    Everything else passes.
    """
    try:
        yield
    except StrandlineError:
        raise
    except Exception as error:  # store libraries have errors of their own
        if not is_rejection(error):
            raise
        raise reject(url, error) from error


def reject(url: str, error: BaseException) -> CredentialsRefusedError:
    """Return the sentence for a store's error that is a rejection."""
    msg = f"{url}: the store refuses the credentials {explain_store_error(error)}"
    return CredentialsRefusedError(msg)
