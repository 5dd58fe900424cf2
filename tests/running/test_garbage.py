"""The garbage collector skips long-lived objects and still collects new ones."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

from garbage import spare_collector


class Knot:
    """A self-reference, which only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_lasts_is_not_collected_and_what_comes_later_is() -> None:
    with spare_collector():
        assert not gc.isenabled()
        lasting = weakref.ref(Knot())
    later = weakref.ref(Knot())

    gc.collect()

    assert gc.isenabled()
    assert lasting() is not None
    assert later() is None


def test_an_error_and_one_within_another_leave_the_collector_as_it_was() -> None:
    with suppress(ValueError), spare_collector():
        with spare_collector():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_tests_run_with_a_collector_that_was_spared_the_session() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
