"""Objects that a process of tests keeps to its end: the garbage collector is spared them.

Python's collector goes through all that it has each time a quarter has come to it, so that a
million nodes of syntax trees, or the fourteen thousand tests of a session, are gone through again
and again while they are made, and at every collection that a test asks for afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spare_collector() -> Iterator[None]:
    """Collect nothing meanwhile, and never what is there at the end.

    What is garbage by then stays too, so only what makes much and drops little belongs in here.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
