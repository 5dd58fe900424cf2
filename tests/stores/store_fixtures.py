"""Fixtures: the store servers. A test is skipped with a reason if its server is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import adlfs
import gcsfs
import pytest
import s3fs

from cloud_servers import serve_azure, serve_google
from store_server import Store, require_server, serve

CLOUDS = ("s3", "gs", "abfs")
# A run takes seconds, so the second tier runs on S3 only. All clouds are tested against the store
# contract, which the product relies on.
S3_FIRST = ["s3", *(pytest.param(name, marks=pytest.mark.full) for name in CLOUDS[1:])]


@pytest.fixture(autouse=True)
def fresh_file_systems() -> Iterator[None]:
    """Clear fsspec's cache, which may contain stores of servers that have ended."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for kind in (s3fs.S3FileSystem, gcsfs.GCSFileSystem, adlfs.AzureBlobFileSystem):
        kind.clear_instance_cache()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Provide one S3 server for all tests."""
    with serve(require_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session", params=S3_FIRST)
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Provide a server for each cloud in turn."""
    with _serve(request.param, request, tmp_path_factory) as server:
        yield server


@pytest.fixture(scope="session", params=CLOUDS)
def every_cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Provide a server for each cloud in turn, for the contract of every store."""
    with _serve(request.param, request, tmp_path_factory) as server:
        yield server


@contextmanager
def _serve(
    name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    if name == "s3":
        yield request.getfixturevalue("store")
        return
    serving = {"gs": serve_google, "abfs": serve_azure}[name]
    with serving(tmp_path_factory.mktemp(name)) as server:
        yield server
