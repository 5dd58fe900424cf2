"""A ledger that an engine opens in its own process: says what is released, hears what was done.

It must not know what runs the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from strandline.engine.core.ports import Control
from strandline.ledger.entries import RELEASED, ListedSource, Standing
from strandline.ledger.keeping.keeper import Keeper
from strandline.ledger.keeping.opening import opened_keeper
from strandline.ledger.location import LedgerLocation
from strandline.ledger.session import LedgerSession
from strandline.plan.receipt import Event, Failure


class KeeperLedger:
    """A keeper in this process."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._forwarded = 0

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:
        return self._keeper.admit(batch, passed)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        self._forwarded += 1
        self._keeper.apply(self._forwarded, events, failures)

    def end_listing(self, total: int, *, is_whole: bool, gaps: Sequence[str]) -> None:
        self._keeper.end_listing(total, is_whole=is_whole, gaps=gaps)

    def drain(self, *, anything_died: bool) -> Standing:
        return self._keeper.drain(self._forwarded, anything_died=anything_died)

    def count_finished(self) -> int:
        return self._keeper.finished


class NoLedger:
    """For runs without a checkpoint: everything is released, nothing is kept."""

    def __init__(self) -> None:
        self._released = 0
        self._failed: set[bytes] = set()

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:  # noqa: ARG002
        self._released += len(batch)
        return [RELEASED] * len(batch)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:  # noqa: ARG002
        self._failed.update(failure.source for failure in failures)

    def end_listing(self, total: int, *, is_whole: bool, gaps: Sequence[str]) -> None:
        pass

    def drain(self, *, anything_died: bool) -> Standing:  # noqa: ARG002
        failed = len(self._failed)
        return Standing(self._released - failed, 0, failed, 0, 0)

    def count_finished(self) -> int:
        return 0


Ledger = KeeperLedger | NoLedger


@contextmanager
def opened_ledger(
    session: LedgerSession | None, location: LedgerLocation | None, control: Control
) -> Iterator[Ledger]:
    """Open the ledger of a run for its time.

    Args:
        session: of it, in this process.
        location: None: nothing is tracked.
    """
    if location is None:
        yield NoLedger()
        return
    assert session is not None  # a run that is tracked has one
    with opened_keeper(session, location, control.now) as keeper:
        keeper.note_progress = control.heartbeat.note_progress
        yield KeeperLedger(keeper)
