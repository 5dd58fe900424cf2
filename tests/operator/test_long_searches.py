"""Searches for garbage: what a long one has looked at is left out of those to come."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from strandline_operator.cluster.garbage import LONG, GarbageWatch

pytestmark = pytest.mark.usefixtures("_thawed")


@pytest.fixture
def _thawed() -> Iterator[None]:
    callbacks = gc.callbacks[:]
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


class Searches:
    """Plays Python, and counts how often it was told to leave objects out."""

    def __init__(self) -> None:
        self.now = 0.0
        self.frozen = 0
        self._watch = GarbageWatch(lambda: self.now, self._freeze)

    def search(self, generation: int, seconds: float) -> None:
        info = {"generation": generation, "collected": 0, "uncollectable": 0}
        self._watch("start", info)
        self.now += seconds
        self._watch("stop", info)
        self.now += 100.0  # what is between two searches is none of its time

    def _freeze(self) -> None:
        self.frozen += 1


def test_what_a_long_search_has_looked_at_is_left_out_of_the_next() -> None:
    searches = Searches()
    searches.search(2, LONG * 2)
    searches.search(2, LONG * 2)
    assert searches.frozen == 2


def test_short_searches_and_those_of_young_objects_look_again() -> None:
    searches = Searches()
    searches.search(2, LONG / 2)
    searches.search(1, LONG * 2)
    searches.search(0, LONG * 2)
    assert searches.frozen == 0


def test_python_takes_it_and_what_is_dropped_later_goes_for_all_that() -> None:
    bodies = [{"items": [[number]]} for number in range(20_000)]
    moments: list[None] = []

    def count() -> float:
        moments.append(None)
        return 2 * LONG * len(moments)  # each search is long

    gc.callbacks.append(GarbageWatch(count, gc.freeze))
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > 3 * len(bodies)
    bodies.clear()
    assert gc.get_freeze_count() <= frozen - 60_000
