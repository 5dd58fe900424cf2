"""A ledger that an engine opens in its own process, to release sources and record events.

The module must not depend on the code that runs the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from strandline.engine.call.stage.receipts import ShapeError
from strandline.engine.call.stage.stage_tally import StageBrokenError
from strandline.engine.core.ports import Control, ListingState
from strandline.ledger.access.session import LedgerSession
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.entries import RELEASED, ListedSource, Standing
from strandline.ledger.writer.opening import opened_writer
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.errors import StageStoppedError, StrandlineError
from strandline.plan.receipt import Event, Failure


class OwnLedger:
    """The ledger of a run, with the ledger's writer in this process."""

    def __init__(self, writer: LedgerWriter) -> None:
        self._writer = writer
        self._forwarded = 0

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:
        return self._writer.admit(batch, passed)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        self._forwarded += 1
        self._writer.apply(self._forwarded, events, failures)

    def drain(self, *, anything_died: bool) -> Standing:
        return self._writer.drain(self._forwarded, anything_died=anything_died)

    def conclude(self, listing: ListingState, failed: int, *, anything_died: bool) -> Standing:  # noqa: ARG002
        if listing.is_ended:
            is_whole, gaps = listing.is_whole, listing.gaps
            self._writer.end_listing(listing.listed, is_whole=is_whole, gaps=gaps)
        return self.drain(anything_died=anything_died)

    def count_finished(self) -> int:
        return self._writer.finished


class NoLedger:
    """The ledger of a run without tracking: releases every source and records nothing."""

    def admit(self, batch: Sequence[ListedSource], passed: int) -> list[int]:  # noqa: ARG002
        return [RELEASED] * len(batch)

    def forward(self, events: Sequence[Event], failures: Sequence[Failure]) -> None:
        pass

    def drain(self, *, anything_died: bool) -> None:
        pass

    def conclude(self, listing: ListingState, failed: int, *, anything_died: bool) -> Standing:  # noqa: ARG002
        return Standing(listing.listed - failed, 0, failed, 0, 0)

    def count_finished(self) -> int:
        return 0


Ledger = OwnLedger | NoLedger


@contextmanager
def draining_after_faults(ledger: Ledger) -> Iterator[None]:
    """Drain the ledger if an error of a stage ends the block. Raise the error again.

    The ledger is intact in this case. After an error of the ledger itself, nothing more must be
    committed.
    """
    try:
        yield
    except (StageBrokenError, ShapeError, StageStoppedError):
        with suppress(StrandlineError):  # the stage's error explains more
            ledger.drain(anything_died=True)  # records the failures for the next attempt
        raise


@contextmanager
def opened_ledger(
    session: LedgerSession | None, location: LedgerLocation | None, control: Control
) -> Iterator[Ledger]:
    """Open the ledger of a run for the duration of the block.

    Args:
        session: the ledger session in this process; required unless `location` is None.
        location: None disables tracking.
    """
    if location is None:
        yield NoLedger()
        return
    assert session is not None  # a run with a ledger location has a session
    with opened_writer(session, location, control.now) as writer:
        writer.note_progress = control.heartbeat.note_progress
        yield OwnLedger(writer)
