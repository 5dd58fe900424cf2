"""What a listing holds before an engine starts: whether anything of it is left to be worked on.

Ray takes seconds to start, and many runs find all their sources finished. This room looks and
changes nothing: what is released, and what is not, is the keeper's to say.
"""

from __future__ import annotations

from collections import deque

from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Control, Listing
from strandline.ledger.entries import Listed
from strandline.ledger.store.store import Store
from strandline.plan.stage import Source

# So many sources are kept in memory at most; where all of them are finished, an engine starts.
MOST_SOURCES = 100_000
LISTING_SECONDS = 0.5
# So long a listing whose sources are all left may take to say that it can't be drawn.
FRESH_SECONDS = 0.1
Sources = deque[tuple[Listed, Source]]


def look_ahead(listing: Listing, store: Store, control: Control) -> tuple[Listing, bool]:
    """Draw from a listing until it is known whether an engine has anything to do.

    Args:
        store: where finished and quarantined sources are looked up.
        control: may ask to stop, which leaves the rest to the engine.

    Returns:
        A listing of the same sources, and whether one of them may be left to be worked on.

    Raises:
        StrandlineError: what the listing or the ledger has raised.
    """
    ahead = ListingThread(listing, control.now)
    try:
        drawn, is_left = _draw(ahead, store, control)
    except BaseException:
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
            # A stop must not wait for a listing, nor memory for its end.
            control.must_stop()
            or len(drawn) >= MOST_SOURCES
            # Whatever comes is left, and an engine can start while it does.
            or (is_fresh and not ahead.is_ended)
            or _has_work(store, batch)
        )
    return drawn, is_left


class _DrawnListing(Listing):
    """A listing of which the first sources were drawn before."""

    def __init__(self, drawn: Sources, ahead: ListingThread) -> None:
        super().__init__(iter(()), lambda: ahead.is_whole)
        self._drawn = drawn
        self._ahead = ahead

    def draw(self, size: int = ADMIT_BATCH) -> Admitted:
        while len(self._drawn) < size and not self._ahead.is_ended:
            self._drawn += self._ahead.take(LISTING_SECONDS) or []
        return self._hand_over(size)

    def draw_ready(self) -> Admitted:
        while not (self._drawn or self._ahead.is_ended):
            self._drawn += self._ahead.take(LISTING_SECONDS) or []
        return self._hand_over(ADMIT_BATCH)

    def close(self) -> None:
        self._ahead.close()

    def _hand_over(self, size: int) -> Admitted:
        batch = [self._drawn.popleft() for _ in range(min(size, len(self._drawn)))]
        self.listed += len(batch)
        self.is_ended = self._ahead.is_ended and not self._drawn
        return batch


def _has_work(store: Store, batch: Admitted) -> bool:
    """Return whether a source of the batch is neither finished nor quarantined as it is now."""
    left = [listed for _, listed, _ in store.find_unfinished([listed for listed, _ in batch])]
    quarantined = store.find_quarantined(listed.source for listed in left)
    return any(
        listed.source not in quarantined or quarantined[listed.source].version != listed.version
        for listed in left
    )
