"""Failures of API requests, as exceptions that the rest of the operator can distinguish.

The module must not depend on the library that sends requests, nor on the effects of a failure.
"""

from __future__ import annotations

from http import HTTPStatus

from strandline_operator.model.view import UNANSWERED_WEBHOOK


class ApiError(Exception):
    """A failed API request.

    Attributes:
        status: HTTP status; 0 if no server responded.
        reason: the server's reason, such as `AlreadyExists`; may be empty.
        message: the server's message.
        retry_after: value of Retry-After in seconds; None if it is missing.
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
    """The object does not exist, or its kind is not served."""


class Conflict(ApiError):
    """The object has changed since it was read, or already exists."""


class Forbidden(ApiError):
    """A missing permission, an exceeded quota, or a namespace that is being deleted."""


class Invalid(ApiError):
    """The object violates the rules of its kind."""


class TooMany(ApiError):
    """The server is overloaded."""


class Gone(ApiError):
    """The requested version is no longer available."""


class Unavailable(ApiError):
    """The server failed, or did not respond in time."""


class WebhookUnavailable(ApiError):
    """A required admission webhook did not respond; the API server itself is available."""


_BY_STATUS: dict[int, type[ApiError]] = {
    HTTPStatus.UNAUTHORIZED: Unavailable,  # expired credentials are read again
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
