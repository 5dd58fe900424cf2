"""Some errors of stores end a run, others fail one file, and all have a clear message."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import ClassVar

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from botocore.exceptions import ClientError, NoCredentialsError
from gcsfs.retry import HttpError
from google.auth.exceptions import RefreshError
from s3fs.errors import translate_boto_error

from strandline.storage.access.refusals import (
    CredentialsRefusedError,
    GoogleAnswers,
    TokenRefusedError,
    describe_store_error,
    explain_unwritten,
    is_refusal,
    is_rejection,
    naming_rejection,
)
from strandline.storage.errors import VolumeError

GRANT = "invalid_grant: Token has been expired or revoked."
AZURE = (
    "Signature not valid in the specified time frame\nRequestId:12\nErrorCode:AuthenticationFailed"
)


def make_s3(code: str) -> Exception:
    details = {"Error": {"Code": code, "Message": "said"}}
    error: Exception = translate_boto_error(ClientError(details, "GetObject"))
    return error


def make_azure(code: str, kind: type[HttpResponseError] = HttpResponseError) -> Exception:
    error = kind(AZURE)
    error.status_code = 403
    error.error_code = code  # type: ignore[attr-defined]
    return error


def make_google() -> Exception:
    error: Exception = HttpError({"code": 401, "message": "Invalid Credentials"})
    error.__cause__ = RefreshError(GRANT, {"error": "invalid_grant"})  # type: ignore[no-untyped-call]
    return error


@pytest.mark.parametrize(
    "error",
    [
        *map(
            make_s3, ["ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "TokenRefreshRequired"]
        ),
        NoCredentialsError(),
        make_azure("AuthenticationFailed"),
        make_azure("", ClientAuthenticationError),
        HttpError({"code": 401, "message": "Invalid Credentials"}),
        make_google(),
    ],
    ids=str,
)
def test_rejected_credentials_are_recognized(error: Exception) -> None:
    assert is_rejection(error)
    assert is_refusal(error)
    said = pytest.raises(CredentialsRefusedError, match="abfs://place: the store rejects")
    with said, naming_rejection("abfs://place"):
        raise error
    assert isinstance(explain_unwritten("abfs://place", error), CredentialsRefusedError)


@pytest.mark.parametrize(
    "error",
    [
        make_s3("AccessDenied"),
        make_azure("AuthorizationPermissionMismatch"),
        PermissionError("Forbidden: storage/v1/b/public/o/file"),
        HttpError({"code": 401, "message": "Anonymous caller does not have storage.objects.get"}),
    ],
    ids=str,
)
def test_missing_permissions_do_not_mean_rejected_credentials(error: Exception) -> None:
    assert is_refusal(error)
    assert not is_rejection(error)
    with pytest.raises(type(error)), naming_rejection("gs://place"):
        raise error
    assert isinstance(explain_unwritten("gs://place", error), VolumeError)


@pytest.mark.parametrize(
    "error",
    [
        make_s3("SlowDown"),
        OSError("reset"),
        RefreshError("unavailable", retryable=True),  # type: ignore[no-untyped-call]
    ],
    ids=str,
)
def test_an_outage_is_no_refusal(error: Exception) -> None:
    assert not is_refusal(error)
    assert not is_rejection(error)


def test_the_message_is_that_of_the_store() -> None:
    refused = make_google()
    assert describe_store_error(refused) == GRANT
    expired = make_azure("AuthenticationFailed")
    assert describe_store_error(expired) == "Signature not valid in the specified time frame"


class Answer(SimpleNamespace):
    """A response of Google's store."""

    CONTENT: ClassVar[str] = '{{"error": {{"code": 401, "message": "{}"}}}}'

    async def text(self) -> str:
        return self.CONTENT.format(self.message)


def judge(answers: GoogleAnswers, status: int, message: str = "Invalid Credentials") -> None:
    asyncio.run(answers(Answer(status=status, message=message)))


def test_a_token_refused_by_google_is_retried_only_briefly() -> None:
    answers = GoogleAnswers()
    for _ in range(2):
        judge(answers, 401)
        judge(answers, 401)
        judge(answers, 200)  # the refusal was transient
    judge(answers, 401)
    judge(answers, 401)
    with pytest.raises(TokenRefusedError, match=r"^Invalid Credentials$"):
        judge(answers, 401)


def test_permanent_errors_of_google_are_refused_at_once() -> None:
    with pytest.raises(TokenRefusedError, match="nonymous caller") as raised:
        judge(GoogleAnswers(), 401, "Anonymous caller does not have storage.objects.get")
    assert not is_rejection(raised.value)
