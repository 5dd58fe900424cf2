"""One S3 server for all of these tests; without one they are skipped, and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from store_server import NEEDED, NoServerError, Store, find_server, serve


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    try:
        program = find_server()
    except NoServerError as error:
        if os.environ.get(NEEDED):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with serve(program, tmp_path_factory.mktemp("s3")) as server:
        yield server
