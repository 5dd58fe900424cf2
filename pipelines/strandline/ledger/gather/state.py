"""What was gathered so far, as the ledger keeps it, and where its files lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from strandline.ledger.store.store import Store


class Merged(NamedTuple):
    """A stage's merged file: pieces in it, bytes, their blake2b-128 as text."""

    pieces: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class GatherState:
    """What was gathered so far.

    Attributes:
        serial: of the gathering; its files are named after it.
        merged: files by stage.
        stages: that were merged, those without a piece too.
        drops: sources with pieces that had been dropped from the ledger when it began.
        is_sealed: it was a whole one, and is all there is.
        pack: serial of the pack; 0: there is none.
        through: the shards up to this number are in the pack.
    """

    serial: int = 0
    merged: Mapping[str, Merged] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    drops: int = 0
    is_sealed: bool = False
    pack: int = 0
    through: int = 0

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that is stored."""
        return {
            "serial": self.serial,
            "merged": self.merged,
            "stages": self.stages,
            "drops": self.drops,
            "sealed": self.is_sealed,
            "pack": self.pack,
            "through": self.through,
        }


def read_state(store: Store) -> GatherState:
    """Return what was gathered so far."""
    known = store.read_meta("gathered")
    if known is None:
        return GatherState()
    return GatherState(
        known["serial"],
        {stage: Merged(*each) for stage, each in known["merged"].items()},
        tuple(known["stages"]),
        known["drops"],
        known["sealed"],
        known["pack"],
        known["through"],
    )


def find_merged(folder: Path, state: GatherState, stage: str) -> Path:
    """Return a stage's merged file."""
    return folder / f"{state.serial:06d}.merged" / f"{stage}.merged"


def find_pack(folder: Path, state: GatherState) -> Path:
    """Return the pack."""
    return folder / f"{state.pack:06d}.pack"


def is_merged_there(folder: Path, state: GatherState, stage: str) -> bool:
    """Return whether a stage's merged file is there in its size."""
    path = find_merged(folder, state, stage)
    return path.is_file() and path.stat().st_size == state.merged[stage].size
