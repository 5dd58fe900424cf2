"""Errors during a listing are permanent or possibly transient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from strandline.plan.errors import StrandlineError, code_of
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import Source, SourceStage
from strandline.run.attempt.sources.partitions import ListingError, SourcePathError, open_listing
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sources.files import Files


class NoCredentialsError(Exception):
    """A class with the name of an error of the S3 library."""


class ClientAuthenticationError(Exception):
    """A class with the name of an error of the Azure library."""


class HttpError(Exception):
    """A class with the name of the Google storage library's general error."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Refusing(SourceStage):
    """Raises an error instead of listing."""

    error: ClassVar[Exception]

    def list_sources(self) -> Iterator[Source]:
        yield Source("first", "1", None)
        raise self.error


class Store(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store whose every method raises."""

    protocol = "refusing"
    cachable = False
    error: ClassVar[Exception]

    def walk(self, *_: object, **__: object) -> Iterator[object]:
        raise self.error


def plan_of(source: SourceStage) -> PipelinePlan:
    sink = StagePlan("jsonl", "jsonl", JsonlSink())
    return check_plan("default", "listed", StagePlan("listed", "listed", source), (sink,))


def list_all(source: SourceStage) -> StrandlineError:
    listing = open_listing(plan_of(source))
    with pytest.raises(StrandlineError, match=r"^the sources can't be listed: ") as caught:
        listing.draw()
    return caught.value


@pytest.mark.parametrize(
    "kind", [FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError]
)
def test_an_invalid_path_ends_the_run_permanently(
    kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusing, "error", kind("in/"), raising=False)
    error = list_all(Refusing())
    assert (SourcePathError, ExitCode.BAD_SPEC) == (type(error), code_of(error))


@pytest.mark.parametrize("kind", [OSError, ConnectionResetError, TimeoutError])
def test_an_unreachable_server_is_a_transient_error(
    kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusing, "error", kind("no answer"), raising=False)
    error = list_all(Refusing())
    assert (ListingError, False) == (type(error), error.is_lasting)
    assert code_of(error) is ExitCode.APPLICATION_ERROR


@pytest.mark.parametrize(
    ("raised", "is_lasting"),
    [
        (NoCredentialsError("Unable to locate credentials"), True),
        (PermissionError("Access Denied"), True),
        (ClientAuthenticationError("Server failed to authenticate the request"), True),
        (HttpError("Invalid Credentials", 401), True),
        (HttpError("Backend Error", 503), False),
        (RuntimeError("SlowDown"), False),
    ],
)
def test_refused_access_is_not_retried_on_a_laptop(
    raised: Exception, is_lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster retries, because its credentials may arrive late."""
    monkeypatch.setattr(Store, "error", raised, raising=False)
    fsspec.register_implementation("refusing", Store, clobber=True)
    error = list_all(Files(Files.Params(paths=("refusing://bucket/*.txt",))))
    assert (is_lasting, ExitCode.APPLICATION_ERROR) == (error.is_lasting, code_of(error))
    assert str(raised) in str(error)
