"""The garbage collector skips long-lived objects and still collects new ones."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

from garbage import spare_collector


class Knot:
    """An object that refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_existing_objects_are_not_collected_and_later_objects_are() -> None:
    with spare_collector():
        assert not gc.isenabled()
        lasting = weakref.ref(Knot())
    later = weakref.ref(Knot())

    gc.collect()

    assert gc.isenabled()
    assert lasting() is not None
    assert later() is None


def test_errors_and_nested_blocks_restore_the_collector() -> None:
    with suppress(ValueError), spare_collector():
        with spare_collector():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_the_sessions_tests_are_exempt_from_collection() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
