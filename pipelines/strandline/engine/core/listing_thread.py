"""Reads a listing on a separate thread, slightly ahead, so that a slow listing blocks nothing.

The module must not depend on what happens to a source later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from strandline.engine.core.ports import ADMIT_BATCH, Admitted, Listing

SOURCES_AHEAD = 2 * ADMIT_BATCH
GATHER_SECONDS = 0.1
_WAIT = 2.0


class ListingThread:
    """Passes on listed sources, in full batches if the listing is fast.

    Args:
        now: returns seconds from any fixed point.

    Attributes:
        listed: number of sources that were returned or skipped.
        passed: number of sources that were skipped.
        is_ended: whether all sources were returned or skipped.
    """

    def __init__(self, listing: Listing, now: Callable[[], float]) -> None:
        self._listing = listing
        self._now = now
        self._drawn: deque[Admitted] = deque()
        self._size = 0
        self._since = 0.0
        self._is_over = False
        self._is_closed = False
        self._error: BaseException | None = None
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._passed = 0
        self.listed = self.passed = 0
        self.is_ended = False

    @property
    def is_whole(self) -> bool:
        """See `ListingState`."""
        return self._listing.is_whole

    @property
    def gaps(self) -> Sequence[str]:
        """See `ListingState`."""
        return self._listing.gaps

    def take(self, limit: float = 0.0, most: int = ADMIT_BATCH) -> Admitted | None:
        """Return the next batch, or None if no batch is ready yet.

        An empty batch means that the listing ended, or that sources were skipped.

        Args:
            limit: seconds to wait for a batch.
            most: target size; the last group of sources may exceed the target.

        Raises:
            StrandlineError: the error that the listing raised.
        """
        if self.is_ended:
            return None
        if self._thread is None:
            self._thread = threading.Thread(target=self._draw_all, name="listing", daemon=True)
            self._thread.start()
        with self._change:
            if limit:
                self._change.wait_for(self._is_due, limit)
            return self._hand_over(most) if self._is_due() else None

    def close(self) -> None:
        """Stop reading the listing. If it hangs, abandon the thread after `_WAIT` seconds."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join(_WAIT)

    def _is_due(self) -> bool:
        if self._is_over or self._size >= ADMIT_BATCH:
            return True
        is_new = bool(self._drawn) or self._passed > self.passed
        return is_new and self._now() - self._since >= GATHER_SECONDS

    def _hand_over(self, most: int) -> Admitted:
        if self._error is not None and not self._drawn:
            raise self._error
        batch: Admitted = []
        while self._drawn and len(batch) < most:
            batch += self._drawn.popleft()
        self._size -= len(batch)
        self.listed += len(batch) + self._passed - self.passed
        self.passed = self._passed
        self._since = self._now()
        self.is_ended = self._is_over and not self._drawn and self._error is None
        self._change.notify_all()
        return batch

    def _draw_all(self) -> None:
        error: BaseException | None = None
        try:
            while not self._listing.is_ended and not self._is_closed:
                self._put(self._listing.draw_ready(), self._listing.passed)
        except BaseException as raised:  # noqa: BLE001 - whoever takes the next batch raises it
            error = raised
        finally:
            self._listing.close()  # on this thread, which may own open resources of the listing
            with self._change:
                self._error = error
                self._is_over = True
                self._change.notify_all()

    def _put(self, drawn: Admitted, passed: int) -> None:
        if not drawn and passed == self._passed:
            return
        with self._change:
            if not self._drawn and self._passed == self.passed:
                self._since = self._now()
            self._passed = passed
            if drawn:
                self._drawn.append(drawn)
            self._size += len(drawn)
            if self._size >= ADMIT_BATCH:
                self._change.notify_all()
            self._change.wait_for(self._has_room)

    def _has_room(self) -> bool:
        return self._is_closed or self._size < SOURCES_AHEAD
