"""Errors of the API server become exceptions, with a class for each kind of error."""

from __future__ import annotations

import pytest

from strandline_operator.cluster.client import build_path
from strandline_operator.cluster.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooMany,
    Unavailable,
    WebhookUnavailable,
    make_error,
)
from strandline_operator.model.plan import Resource


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unavailable),
        (403, Forbidden),
        (404, NotFound),
        (408, Unavailable),
        (409, Conflict),
        (410, Gone),
        (413, Invalid),
        (418, ApiError),
        (422, Invalid),
        (429, TooMany),
        (500, Unavailable),
        (504, Unavailable),
    ],
)
def test_each_status_has_its_own_error_class(status: int, kind: type[ApiError]) -> None:
    error = make_error(status, "Why", "what happened", 2.5)

    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (status, "Why", "what happened")
    assert error.retry_after == 2.5
    assert str(error) == f"{status} Why: what happened"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, WebhookUnavailable), (504, WebhookUnavailable), (403, Forbidden), (400, Invalid)],
)
def test_an_unanswered_webhook_is_not_a_server_failure(status: int, kind: type[ApiError]) -> None:
    words = 'failed calling webhook "mrayjob.kb.io": context deadline exceeded'
    assert type(make_error(status, "InternalError", words)) is kind


def test_a_missing_response_is_reported_without_a_status() -> None:
    assert str(Unavailable(0, "", "no answer")) == "no answer"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((Resource.POD, None), "/api/v1/pods"),
        ((Resource.CLAIM, "team"), "/api/v1/namespaces/team/persistentvolumeclaims"),
        ((Resource.POD, "team", "a", "log"), "/api/v1/namespaces/team/pods/a/log"),
        (
            (Resource.PIPELINE, "team", "corpus", "status"),
            "/apis/strandline.dev/v1alpha1/namespaces/team/curationpipelines/corpus/status",
        ),
        ((Resource.RAYJOB, "team"), "/apis/ray.io/v1/namespaces/team/rayjobs"),
        ((Resource.POD, "a/b", "../c"), "/api/v1/namespaces/a%2Fb/pods/..%2Fc"),
    ],
)
def test_objects_are_found_at_their_paths(arguments: tuple[Resource, str], path: str) -> None:
    assert build_path(*arguments) == path
