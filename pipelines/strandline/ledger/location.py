"""Where a ledger stands and under which lease it is written; all that it takes to host it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from strandline.ledger.records.entries import RemovalPolicy
from strandline.storage.outputs.ports import OutputLocation


class Redo(NamedTuple):
    """What replaces finished sources of an older recipe.

    Attributes:
        above: the stages that are not worked through again, in order; the last one is read from
            its cut. None of them: sources are worked on from the beginning.
        from_output: the last one is read from the sink's files instead.
        finished, remaining: sources that the attempt had finished before, and all that it has to
            finish where that is known.
        total: sources that the attempt replaces.
        listed, skipped, quarantined, failed: of all its sources, those that are not replaced.
        reason: from where, and since what has changed, in words.
    """

    above: tuple[str, ...] = ()
    from_output: bool = False
    finished: int = 0
    remaining: int | None = None
    total: int = 0
    reason: str = ""
    listed: int = 0
    skipped: int = 0
    quarantined: int = 0
    failed: int = 0


class Trial(NamedTuple):
    """What an attempt has worked on apart, before everything else.

    Attributes:
        sources: digests; the listing names them once more.
        finished: how many of them are.
    """

    sources: frozenset[bytes]
    finished: int


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """A ledger with a lease that is taken for an attempt.

    Attributes:
        path: folder of the environment.
        attempt, uid: of the lease.
        outputs: where the sinks write.
        deletes_vanished, deletes_within, part_suffix: see `RemovalPolicy`.
        quarantine_after: see `Keeper`.
        tolerances: see `Keeper`.
        rejoins: the stage that gets its dead letters again; None: sources are worked on.
        stale_cuts: stages whose cuts lack what joins a source again.
        redo: how finished sources are replaced; None: sources are worked on that are not finished.
        is_trial: what is listed is a few sources of many.
        trial: such as were worked on before; None: none were.
        room: bytes that more cuts may have; None: any number.
        worth: stages that are kept, those first whose cuts save most; others come behind them.
        shards: folder for what stages gather; None: none of them does.
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
    rejoins: str | None = None
    stale_cuts: tuple[str, ...] = ()
    redo: Redo | None = None
    is_trial: bool = False
    trial: Trial | None = None
    room: int | None = None
    worth: tuple[str, ...] = ()

    @property
    def removal(self) -> RemovalPolicy:
        """Which finished sources go that a listing does not name."""
        return RemovalPolicy(self.deletes_vanished, self.deletes_within, self.part_suffix)
