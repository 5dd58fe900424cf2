"""Searches for garbage as seldom as in the command itself, whatever process measures."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.__main__ import NEW_OBJECTS


@contextmanager
def search_as_commands() -> Iterator[None]:
    """Have Python look for garbage once in as many new objects as the command does."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
