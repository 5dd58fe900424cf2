"""Place and lease of a ledger, and the other settings needed to host it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from strandline.ledger.records.entries import RemovalPolicy
from strandline.storage.outputs.ports import OutputLocation


class Trial(NamedTuple):
    """Sources that an attempt has processed in a trial, before all other sources.

    Attributes:
        sources: digests of the sources; the listing yields them again.
        finished: number of these sources that finished.
    """

    sources: frozenset[bytes]
    finished: int


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """A ledger with a lease that was taken for an attempt.

    Attributes:
        path: folder of the environment.
        attempt, uid: attempt and uid of the lease.
        outputs: location where the sinks write.
        deletes_vanished, deletes_within, part_suffix: see `RemovalPolicy`.
        quarantine_after: see `LedgerWriter`.
        tolerances: see `LedgerWriter`.
        make_writer: creates the writer that processes finished sources again, or None for the usual
            writer.
        is_trial: True if the listing has only a few of all sources.
        trial: the preceding trial, or None.
        room: bytes available for further cuts, or None for no limit.
        worth: stages with kept cuts, those that save most first; unlisted stages rank last.
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
        """Policy for finished sources that are missing in a listing."""
        return RemovalPolicy(self.deletes_vanished, self.deletes_within, self.part_suffix)
