"""Defines the state of gathering that the ledger records, and the paths of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from strandline.ledger.store.store import Store


class MergedFile(NamedTuple):
    """A stage's merged file: number of pieces, bytes, and blake2b-128 digest in hex."""

    pieces: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class GatherState:
    """State of gathering.

    Attributes:
        serial: number of the last gathering, which is in its file names.
        merged: merged files by stage.
        stages: merged stages, including stages without pieces.
        drops: number of dropped sources with pieces when the gathering began, from the ledger.
        is_sealed: True if the last gathering was complete.
        pack: serial of the pack, or 0 if there is no pack.
        through: highest shard number contained in the pack.
    """

    serial: int = 0
    merged: Mapping[str, MergedFile] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    drops: int = 0
    is_sealed: bool = False
    pack: int = 0
    through: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object to store."""
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
    """Return the current state of gathering."""
    known = store.read_meta("gathered")
    if known is None:
        return GatherState()
    return GatherState(
        known["serial"],
        {stage: MergedFile(*each) for stage, each in known["merged"].items()},
        tuple(known["stages"]),
        known["drops"],
        known["sealed"],
        known["pack"],
        known["through"],
    )


def find_merged(folder: Path, state: GatherState, stage: str) -> Path:
    """Return the path of a stage's merged file."""
    return folder / f"{state.serial:06d}.merged" / f"{stage}.merged"


def find_pack(folder: Path, state: GatherState) -> Path:
    """Return the path of the pack."""
    return folder / f"{state.pack:06d}.pack"


def is_merged_there(folder: Path, state: GatherState, stage: str) -> bool:
    """Return True if a stage's merged file exists with the recorded size."""
    path = find_merged(folder, state, stage)
    return path.is_file() and path.stat().st_size == state.merged[stage].size
