"""Servers for all of these tests; without its server a test is skipped, and says so."""

from __future__ import annotations

from collections.abc import Iterator

import adlfs
import gcsfs
import pytest
import s3fs

from cloud_servers import serve_azure, serve_google
from store_server import Store, require_server, serve

CLOUDS = ("s3", "gs", "abfs")


@pytest.fixture(autouse=True)
def fresh_file_systems() -> Iterator[None]:
    """Open stores anew: this process may know a server of other tests, which has ended."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for kind in (s3fs.S3FileSystem, gcsfs.GCSFileSystem, adlfs.AzureBlobFileSystem):
        kind.clear_instance_cache()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One S3 server for all."""
    with serve(require_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session", params=CLOUDS)
def cloud(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A server for each cloud in turn."""
    if request.param == "s3":
        yield request.getfixturevalue("store")
        return
    serving = {"gs": serve_google, "abfs": serve_azure}[request.param]
    with serving(tmp_path_factory.mktemp(request.param)) as server:
        yield server
