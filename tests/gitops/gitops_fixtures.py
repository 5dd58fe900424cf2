"""The reader fixture, or a message about how to get the readers; a failure under `make gitops`."""

from __future__ import annotations

import os

import pytest

from readings import NoReaderError, Reader, find_program


@pytest.fixture(scope="session")
def reader() -> Reader:
    """Return a reader with the libraries of Flux and Argo CD, and Strandline's health scripts."""
    try:
        return Reader(find_program())
    except NoReaderError as error:
        if os.environ.get("STRANDLINE_NEEDS_GITOPS"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
