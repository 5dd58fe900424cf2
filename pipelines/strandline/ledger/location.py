"""Settings for hosting a ledger: its folder, its lease, and the policies of its writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from strandline.ledger.records.entries import RemovalPolicy
from strandline.storage.outputs.ports import OutputLocation


class Trial(NamedTuple):
    """Sources that an attempt has processed in a trial, before the main listing.

    Attributes:
        sources: digests of the sources; the main listing yields them again.
        finished: number of these sources that finished.
    """

    sources: frozenset[bytes]
    finished: int


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """A ledger with a lease that was taken for an attempt.

    Attributes:
        path: folder of the LMDB environment.
        attempt, uid: attempt and uid of the lease.
        outputs: location where the sinks write.
        deletes_vanished, deletes_within, part_suffix: see `RemovalPolicy`.
        quarantine_after: see `LedgerWriter`.
        tolerances: see `LedgerWriter`.
        make_writer: creates a special writer, used to process finished sources again, or None for
            the usual writer.
        is_trial: True if the listing is a trial, with only a few of the sources.
        trial: the preceding trial, or None.
        room: bytes available for further cuts, or None for no limit.
        worth: stages with kept cuts, sorted by the work that a cut saves, largest first; unlisted
            stages rank last.
        shards: folder for gathered pieces, or None if no stage gathers.
    """

    path: Path
    attempt: int
    uid: str
    outputs: OutputLocation
    deletes_vanished: bool
    quarantine_after: int
    shards: Path | None = None
    deletes_within: tuple[str, ...] = ()
    part_suffix: str = ""
    tolerances: tuple[tuple[str, int | str], ...] = ()
    make_writer: Callable[..., Any] | None = None
    is_trial: bool = False
    trial: Trial | None = None
    room: int | None = None
    worth: tuple[str, ...] = ()

    @property
    def removal(self) -> RemovalPolicy:
        """Policy for finished sources that a listing no longer has."""
        return RemovalPolicy(self.deletes_vanished, self.deletes_within, self.part_suffix)
