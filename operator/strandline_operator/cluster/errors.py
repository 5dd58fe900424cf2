"""Exceptions for failed API requests.

This module must not depend on the library that sends requests, or on what follows from a failure.
"""

from __future__ import annotations

from http import HTTPStatus

from strandline_operator.model.view import UNANSWERED_WEBHOOK


class ApiError(Exception):
    """Raised if an API request fails.

    Attributes:
        status: HTTP status; 0 if no server responded.
        reason: the server's reason, such as `AlreadyExists`; may be empty.
        message: the server's message.
        retry_after: value of Retry-After in seconds, or None if the header is missing.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class NotFound(ApiError):
    """Raised if the object does not exist, or its kind is not served."""


class Conflict(ApiError):
    """Raised if the object has changed since it was read, or already exists."""


class Forbidden(ApiError):
    """Raised for a missing permission, an exceeded quota, or a namespace that is being deleted."""


class Invalid(ApiError):
    """Raised if the object violates the rules of its kind."""


class TooMany(ApiError):
    """Raised if the server is overloaded."""


class Gone(ApiError):
    """Raised if the requested version is no longer available."""


class Unavailable(ApiError):
    """Raised if the server failed, or did not respond in time."""


class WebhookUnavailable(ApiError):
    """Raised if a required admission webhook did not respond. The API server is available."""


_BY_STATUS: dict[int, type[ApiError]] = {
    HTTPStatus.UNAUTHORIZED: Unavailable,  # credentials may have expired, and are read again
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.REQUEST_TIMEOUT: Unavailable,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
    HTTPStatus.BAD_REQUEST: Invalid,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Invalid,
    HTTPStatus.TOO_MANY_REQUESTS: TooMany,
}


def make_error(
    status: int, reason: str, message: str, retry_after: float | None = None
) -> ApiError:
    """Return the exception for an HTTP status of 400 or more."""
    is_servers = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_servers and UNANSWERED_WEBHOOK in message:
        return WebhookUnavailable(status, reason, message, retry_after)
    kind = _BY_STATUS.get(status, Unavailable if is_servers else ApiError)
    return kind(status, reason, message, retry_after)
