"""Opens the writer of a ledger, in the process in which the writer runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from strandline.ledger.access.session import LedgerSession
from strandline.ledger.gather.pieces import PieceStore
from strandline.ledger.location import LedgerLocation
from strandline.ledger.writer.cut_room import CutRoom
from strandline.ledger.writer.writer import LedgerWriter
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared, release


@contextmanager
def opened_writer(
    session: LedgerSession, location: LedgerLocation, now: Callable[[], float]
) -> Iterator[LedgerWriter]:
    """Open a ledger and its writer, and close both when the block ends.

    Args:
        session: session of the same ledger, in this process.
        now: clock, in seconds from any fixed point.

    Raises:
        LedgerError: if another attempt has taken the ledger over.
        VolumeError: if the ledger can't be read or written.
    """
    outputs = location.outputs
    with ExitStack() as stack:
        if outputs.writers_lock is not None:
            # Like a sink, the writer changes the output folder (it removes files), so a takeover
            # must wait until the writer has ended.
            stack.callback(release, hold_shared(outputs.writers_lock))
        pieces = None
        if location.shards is not None:
            pieces = stack.enter_context(closing(PieceStore(location.shards, location.attempt)))
        store = stack.enter_context(session.open())
        make: Callable[..., LedgerWriter] = location.make_writer or LedgerWriter
        writer = make(
            store,
            open_outputs(outputs.url),
            location.attempt,
            now,
            quarantine_after=location.quarantine_after,
            pieces=pieces,
        )
        writer.set_removal(location.removal)
        writer.tolerances = location.tolerances
        writer.room = CutRoom(location.room, location.worth)
        writer.set_trial(location.trial, is_trial=location.is_trial)
        yield writer
