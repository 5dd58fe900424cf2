"""Exempts long-lived objects of a test process from garbage collection.

The collector traverses all old objects whenever their number has grown by a quarter. Without this
module, a million syntax tree nodes and the tests of a session would be traversed many times while
they are created, and at every explicit collection afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spare_collector() -> Iterator[None]:
    """Disable the collector during the block, and exempt all objects that exist at its end.

    The block's own garbage is also kept, so the block should create many objects and drop few.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
