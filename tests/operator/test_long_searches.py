"""Garbage collection: later searches skip the objects that a long search has examined."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from strandline_operator.cluster.watches.garbage import LONG, WHOLE_AFTER, GarbageWatch

pytestmark = pytest.mark.usefixtures("_thawed")


@pytest.fixture
def _thawed() -> Iterator[None]:
    callbacks = gc.callbacks[:]
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


class Searches:
    """A fake of Python's garbage collector that counts calls of `gc.freeze` and `gc.unfreeze`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.frozen = self.thawed = 0
        self._watch = GarbageWatch(lambda: self.now, self._freeze, self._thaw)

    def search(self, generation: int, seconds: float) -> None:
        info = {"generation": generation, "collected": 0, "uncollectable": 0}
        self._watch("start", info)
        self.now += seconds
        self._watch("stop", info)
        self.now += 100.0  # the time between two searches does not count

    def _freeze(self) -> None:
        self.frozen += 1

    def _thaw(self) -> None:
        self.thawed += 1


class Knot:
    """An object that refers to itself, so only a garbage search can free it."""

    def __init__(self) -> None:
        self.itself = self


def test_objects_examined_by_a_long_search_are_excluded_from_the_next() -> None:
    searches = Searches()
    searches.search(2, LONG * 2)
    searches.search(2, LONG * 2)
    assert searches.frozen == 2


def test_a_search_examines_all_objects_at_times() -> None:
    searches = Searches()
    searches.search(2, LONG * 2)
    searches.search(2, LONG * 2)
    assert searches.thawed == 0
    searches.now += WHOLE_AFTER
    searches.search(0, LONG / 2)  # a search of young objects only
    assert searches.thawed == 0
    searches.search(2, LONG * 2)
    searches.search(2, LONG * 2)
    assert (searches.thawed, searches.frozen) == (1, 4)


def test_short_searches_and_searches_of_young_objects_exclude_nothing() -> None:
    searches = Searches()
    searches.search(2, LONG / 2)
    searches.search(1, LONG * 2)
    searches.search(0, LONG * 2)
    assert searches.frozen == 0


def test_python_frees_excluded_objects_without_references() -> None:
    bodies = [{"items": [[number]]} for number in range(20_000)]
    clock = count(0.0, 2 * LONG)  # each search is long
    gc.callbacks.append(GarbageWatch(partial(next, clock), gc.freeze, gc.unfreeze))
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > 3 * len(bodies)
    bodies.clear()
    assert gc.get_freeze_count() <= frozen - 60_000


@pytest.mark.more
def test_excluded_cycles_are_freed_by_a_later_search() -> None:
    knot = Knot()
    ends = weakref.ref(knot)
    clock = count(0.0, WHOLE_AFTER / 4)  # each search is long and follows a long pause
    gc.callbacks.append(GarbageWatch(partial(next, clock), gc.freeze, gc.unfreeze))
    gc.collect()
    del knot
    gc.collect()
    assert ends() is not None  # searches skip the object
    for _ in range(4):
        gc.collect()
    assert ends() is None
