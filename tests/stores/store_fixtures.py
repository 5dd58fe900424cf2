"""One S3 server for all of these tests; without one they are skipped, and say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from store_server import Store, require_server, serve


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with serve(require_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server
