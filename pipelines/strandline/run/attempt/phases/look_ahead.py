"""Finds out before an engine starts which listed sources are finished, and whether work remains.

Ray takes seconds to start, and many runs find all their sources finished. With millions of sources,
the look-up itself takes longest. This module only reads; the writer decides which sources are
released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.odd_sources import identify
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Control, Listing
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.entries import ListedSource
from strandline.ledger.store.look_ups import CHUNK, LookUps
from strandline.ledger.store.store import Store
from strandline.plan.stages.ends import Source

# Maximum number of sources to keep in memory. With more sources, an engine starts even if all of
# them are finished.
MOST_SOURCES = 100_000
LISTING_SECONDS = 0.5  # maximum wait for a batch
# Seconds to wait for the first sources in a fresh run, to detect a listing that fails.
FRESH_SECONDS = 0.1
Sources = deque[tuple[ListedSource, Source]]
# Look-up processes take some tenths of a second to start. So they start only if the ledger has this
# many finished sources, and after this many sources were listed.
MANY_FINISHED = 300_000
MANY_LISTED = 50_000
MOST_READERS = 4  # more readers would be faster than the process that feeds them
# Maximum seconds to collect a chunk: larger chunks would not make look-ups faster.
CHUNK_SECONDS = 0.02
# Number of sources that a fast listing yields between two readings of the clock: reading the clock
# costs as much as listing a source.
SOURCES_AT_A_TIME = 16


def pass_over(
    listing: Listing, ledger: LedgerLocation, finished: int, cores: int, now: Callable[[], float]
) -> Listing:
    """Return a listing without finished sources. Use several look-up processes if that is faster.

    Args:
        finished: number of finished sources in the ledger.
        cores: number of processes that can run in parallel.
        now: monotonic clock, in seconds.
    """
    # To detect sources that are no longer listed, the writer has to see the whole listing.
    if finished < MANY_FINISHED or cores < 2 or any(ledger.removal):  # noqa: PLR2004 - one is here
        return listing
    count = min(cores, MOST_READERS)
    return PassingListing(listing, lambda: LookUps(ledger.path, ledger.attempt, count), now)


def look_ahead(listing: Listing, store: Store, control: Control) -> tuple[Listing, bool]:
    """Read a listing until it is clear whether an engine has work.

    Args:
        store: the ledger, in which finished and quarantined sources are looked up.
        control: if it requests a stop, the function returns and leaves the rest to the engine.

    Returns:
        A listing of the same sources, and whether unfinished sources may remain.

    Raises:
        StrandlineError: if the listing or the ledger fails.
    """
    ahead = ListingThread(listing, control.now)
    try:
        drawn, is_left = _draw(ahead, store, control)
    except BaseException:
        # Stop the thread, which would otherwise continue to list.
        ahead.close()
        raise
    return _DrawnListing(drawn, ahead), is_left


def _draw(ahead: ListingThread, store: Store, control: Control) -> tuple[Sources, bool]:
    counts = store.count()
    is_fresh = not (counts["finished"] or counts["quarantined"])
    limit = FRESH_SECONDS if is_fresh else LISTING_SECONDS
    drawn: Sources = deque()
    is_left = False
    while not (is_left or ahead.is_ended):
        control.heartbeat.note_progress()
        batch = ahead.take(limit) or []
        drawn += batch
        is_left = (
            # A stop must not wait for the listing, and memory is limited.
            control.must_stop()
            or len(drawn) >= MOST_SOURCES
            # A fresh run has no finished sources to skip, so the engine can start during the
            # listing.
            or (is_fresh and not ahead.is_ended)
            or _has_work(store, batch)
        )
    return drawn, is_left


class PassingListing(Listing):
    """A listing without sources that were found finished. These sources are counted as `passed`.

    Args:
        listing: all sources.
        start: starts the look-up processes; called once, if the listing turns out to be long.
        now: monotonic clock, in seconds.
    """

    def __init__(
        self, listing: Listing, start: Callable[[], LookUps[Source]], now: Callable[[], float]
    ) -> None:
        super().__init__(iter(()), lambda: listing.is_whole, lambda: listing.gaps)
        self._all = listing
        self._start = start
        self._now = now
        self._look_ups: LookUps[Source] | None = None
        self._is_slow = True  # until the listing fills a chunk in time
        self._left: Sources = deque()

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        if not self._left:
            self._advance(size)
        batch = [self._left.popleft() for _ in range(min(size, len(self._left)))]
        self.listed = self._all.listed - self._count_asked() - len(self._left)
        self.is_ended = self._all.is_ended and not self._count_asked() and not self._left
        if self.is_ended:
            self._end()
        return batch

    def close(self) -> None:
        self._end()
        self._all.close()

    def _count_asked(self) -> int:
        return 0 if self._look_ups is None else self._look_ups.asked

    def _advance(self, size: int) -> None:
        if self._look_ups is None and self._all.listed < MANY_LISTED:
            self._left += self._all.draw(size)
            return
        self._look_ups = self._look_ups or self._start()
        self._ask(self._look_ups)
        if self._look_ups.asked:
            start, chunk, left = self._look_ups.take()
            self.passed += len(chunk) - len(left)
            self._left += [(identify(chunk[each], start + each + 1), chunk[each]) for each in left]

    def _ask(self, look_ups: LookUps[Source]) -> None:
        # If the listing is slow, do not wait for more sources while a chunk is being looked up.
        while not self._all.is_ended and look_ups.has_room:
            if self._is_slow and look_ups.asked:
                break
            start, chunk = self._all.listed, self._draw_chunk()
            self._is_slow = len(chunk) < CHUNK
            look_ups.ask(start, chunk, is_quick=not self._is_slow)

    def _draw_chunk(self) -> list[Source]:
        """Return the next sources. If the listing is slow, return few sources, but at least one."""
        step = 1 if self._is_slow else SOURCES_AT_A_TIME
        until = self._now() + CHUNK_SECONDS
        chunk: list[Source] = []
        while len(chunk) < CHUNK and not self._all.is_ended and self._now() <= until:
            chunk += self._all.draw_sources(min(step, CHUNK - len(chunk)))
        return chunk

    def _end(self) -> None:
        if self._look_ups is not None:
            self._look_ups.close()
            self._look_ups = None


class _DrawnListing(Listing):
    """A listing whose first sources have already been read."""

    def __init__(self, drawn: Sources, ahead: ListingThread) -> None:
        super().__init__(iter(()), lambda: ahead.is_whole, lambda: ahead.gaps)
        self._drawn = drawn
        self._ahead = ahead

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        self._wait_for(size)
        return self._hand_over(size)

    def draw_ready(self) -> Admitted:
        self._wait_for(1)
        return self._hand_over(ADMIT_BATCH)

    def close(self) -> None:
        self._ahead.close()

    def _wait_for(self, size: int) -> None:
        passed = self._ahead.passed
        while len(self._drawn) < size and not self._ahead.is_ended:
            self._drawn += self._ahead.take(LISTING_SECONDS) or []
            if self._ahead.passed > passed:
                break  # report passed sources without waiting for work

    def _hand_over(self, size: int) -> Admitted:
        batch = [self._drawn.popleft() for _ in range(min(size, len(self._drawn)))]
        self.passed = self._ahead.passed
        self.listed = self._ahead.listed - len(self._drawn)
        self.is_ended = self._ahead.is_ended and not self._drawn
        return batch


def _has_work(store: Store, batch: Admitted) -> bool:
    """Return True if a source of the batch is unfinished, and not quarantined in this version."""
    left = [listed for _, listed, _ in store.find_unfinished([listed for listed, _ in batch])]
    quarantined = store.find_quarantined(listed.source for listed in left)
    return any(
        listed.source not in quarantined or quarantined[listed.source].version != listed.version
        for listed in left
    )
