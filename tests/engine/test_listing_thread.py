"""A thread reads the listing ahead: in order, up to a limit, and without blocking the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.core.listing_thread import GATHER_SECONDS, SOURCES_AHEAD, ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Listing
from strandline.plan.stages.ends import Source

PATIENCE = 120.0


class Days:
    """A listing that records its progress, continues when the test permits, and can be closed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.drawn = 0
        self.may_go_on = threading.Event()
        self.thread = 0
        self.is_closed = threading.Event()

    def __iter__(self) -> Iterator[Source]:
        self.thread = threading.get_ident()
        try:
            for number in range(self.count):
                self.drawn = number + 1
                yield Source(str(number), "1", number)
            self.may_go_on.wait(PATIENCE)
        finally:
            assert threading.get_ident() == self.thread
            self.is_closed.set()


def take_all(thread: ListingThread) -> list[str]:
    keys: list[str] = []
    while not thread.is_ended:
        keys += [source.key for _, source in thread.take(PATIENCE) or []]
    return keys


def wait_until_full(days: Days) -> None:
    """Wait until the thread stops reading sources."""
    end, before = time.monotonic() + PATIENCE, -1
    while days.drawn != before and time.monotonic() < end:
        before = days.drawn
        time.sleep(0.3)


@given(count=st.integers(0, 3 * ADMIT_BATCH))
def test_law_all_sources_are_returned_once_and_in_order(count: int) -> None:
    days = Days(count)
    days.may_go_on.set()
    listing = Listing(iter(days))
    thread = ListingThread(listing, time.monotonic)

    assert take_all(thread) == [str(number) for number in range(count)]
    assert thread.listed == listing.listed == count
    assert thread.take() is None
    thread.close()
    assert days.is_closed.wait(PATIENCE)


def test_a_listing_is_drawn_only_a_little_ahead() -> None:
    days = Days(100 * ADMIT_BATCH)
    thread = ListingThread(Listing(iter(days)), time.monotonic)
    assert not days.drawn
    thread.take(PATIENCE)
    wait_until_full(days)
    assert days.drawn <= SOURCES_AHEAD + ADMIT_BATCH
    thread.close()
    assert days.is_closed.wait(PATIENCE)


def test_law_a_hanging_listing_does_not_block() -> None:
    days, now = Days(3), 0.0
    thread = ListingThread(Listing(iter(days)), lambda: now)
    assert thread.take() is None
    wait_until_full(days)
    assert thread.take() is None  # the rest of a batch may still come
    now += GATHER_SECONDS
    assert [source.key for _, source in thread.take() or []] == ["0", "1", "2"]
    assert thread.take() is None
    assert thread.listed == 3
    days.may_go_on.set()
    assert take_all(thread) == []
    thread.close()


def test_a_fast_listing_comes_in_whole_batches() -> None:
    days = Days(3 * ADMIT_BATCH)
    days.may_go_on.set()
    thread = ListingThread(Listing(iter(days)), lambda: 0.0)
    sizes = []
    while not thread.is_ended:
        sizes.append(len(thread.take(PATIENCE) or []))
    assert [size for size in sizes if size] == [ADMIT_BATCH] * 3
    thread.close()


def test_errors_of_a_listing_are_raised_on_take() -> None:
    def list_sources() -> Iterator[Source]:
        yield from (Source(str(number), "1", number) for number in range(ADMIT_BATCH))
        msg = "no bucket"
        raise OSError(msg)

    thread = ListingThread(Listing(list_sources()), time.monotonic)
    assert len(thread.take(PATIENCE) or []) == ADMIT_BATCH
    with pytest.raises(OSError, match="no bucket"):
        thread.take(PATIENCE)
    thread.close()


class Passing(Listing):
    """Passes every `step`th source on and skips the others, ten at a time."""

    def __init__(self, count: int, step: int) -> None:
        super().__init__(list_sources(count))
        self.step = step

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        drawn = super().draw(10)
        left = [each for each in drawn if each[0].ordinal % self.step == 0]
        self.passed += len(drawn) - len(left)
        return left


def list_sources(count: int) -> Iterator[Source]:
    for number in range(count):
        yield Source(str(number), "1", number)


@given(count=st.integers(0, 3 * ADMIT_BATCH), step=st.integers(1, 400))
def test_law_skipped_sources_are_counted_with_returned_ones(count: int, step: int) -> None:
    thread = ListingThread(Passing(count, step), time.monotonic)
    taken = 0
    while not thread.is_ended:
        taken += len(thread.take(PATIENCE) or [])
        assert thread.listed == taken + thread.passed
    assert (taken, thread.listed) == (count // step, count)
    thread.close()


def test_skipped_sources_are_reported_while_no_source_is_returned() -> None:
    may_end = threading.Event()

    def hang() -> Iterator[Source]:
        yield from list_sources(100)
        may_end.wait(PATIENCE)

    passing = Passing(0, 1000)
    passing._sources = hang()
    thread = ListingThread(passing, time.monotonic)
    while thread.passed < 100:
        assert not thread.take(GATHER_SECONDS)
        assert not thread.is_ended
    may_end.set()
    assert [] == take_all(thread)
    assert thread.listed == thread.passed == 100
    thread.close()
