"""The readers, or one line that says how to get them; under `make gitops` that is a failure."""

from __future__ import annotations

import os

import pytest

from readings import NoReaderError, Reader, find_program


@pytest.fixture(scope="session")
def reader() -> Reader:
    """Flux's and Argo CD's own libraries, with the health scripts that we ship."""
    try:
        return Reader(find_program())
    except NoReaderError as error:
        if os.environ.get("STRANDLINE_NEEDS_GITOPS"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
