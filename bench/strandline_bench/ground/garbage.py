"""Configures the garbage collector of a measuring process as the `strandline` command does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.__main__ import NEW_OBJECTS


@contextmanager
def search_as_commands() -> Iterator[None]:
    """Run the garbage collector as rarely as the `strandline` command does."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
