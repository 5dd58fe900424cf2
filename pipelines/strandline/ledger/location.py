"""Where a ledger stands and under which lease it is written; all that it takes to host it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from strandline.ledger.records.entries import RemovalPolicy
from strandline.storage.outputs.ports import OutputLocation


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
        quarantine_after: see `LedgerWriter`.
        tolerances: see `LedgerWriter`.
        make_writer: makes the writer for work on finished sources; None: the others are worked on.
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
    make_writer: Callable[..., Any] | None = None
    is_trial: bool = False
    trial: Trial | None = None
    room: int | None = None
    worth: tuple[str, ...] = ()

    @property
    def removal(self) -> RemovalPolicy:
        """Which finished sources go that a listing does not name."""
        return RemovalPolicy(self.deletes_vanished, self.deletes_within, self.part_suffix)
