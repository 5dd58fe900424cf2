"""How an API server says no, as exceptions that the rest of the operator can tell apart.

This room must not know which library carried the request, nor what follows a refusal.
"""

from __future__ import annotations

from http import HTTPStatus

from strandline_operator.model.view import UNANSWERED_WEBHOOK


class ApiError(Exception):
    """A request that an API server did not carry out.

    Attributes:
        status: of HTTP; 0 where no server answered.
        reason: the server's word, such as `AlreadyExists`; may be empty.
        message: the server's sentence.
        retry_after: seconds that the server asks to be left alone; None where it does not say.
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
    """There is no such object, or its kind is not served."""


class Conflict(ApiError):
    """The object has changed since it was read, or exists already."""


class Forbidden(ApiError):
    """The operator may not do this: rights, a quota, or a namespace that is going away."""


class Invalid(ApiError):
    """The object breaks the rules of its kind."""


class TooMany(ApiError):
    """The server has too much to do."""


class Gone(ApiError):
    """The version to go on from is no longer kept."""


class Unavailable(ApiError):
    """The server failed, or none answered in time."""


class Unadmitted(ApiError):
    """A webhook that has to let the object in did not answer; the server itself is well."""


_BY_STATUS: dict[int, type[ApiError]] = {
    HTTPStatus.UNAUTHORIZED: Unavailable,  # credentials that ran out are read anew
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
    """Return the exception for a status of HTTP, 400 or more."""
    is_servers = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if is_servers and UNANSWERED_WEBHOOK in message:
        return Unadmitted(status, reason, message, retry_after)
    kind = _BY_STATUS.get(status, Unavailable if is_servers else ApiError)
    return kind(status, reason, message, retry_after)
