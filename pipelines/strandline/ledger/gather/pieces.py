"""Stores gathered pieces: a shard holds the bytes, and records hold their locations.

A piece stays in memory until its source is finished. Large pieces go into the shard immediately,
and so do all pieces while the waiting pieces exceed a size limit. A piece in a shard counts only if
a record names it; other pieces belong to sources that failed, restarted, or were replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from strandline.plan.receipt import Event, Left, Output, Piece, PieceLocation
from strandline.storage import faults
from strandline.storage.outputs.disk.shards import FrameWriter, Title, digest_bytes

LARGE_BYTES = 1 << 16
WAITING_BYTES = 1 << 28


class PieceStore:
    """Stores the pieces of one attempt, in a shard to which nothing else writes.

    Args:
        folder: folder of the shards.
        shard: number of the shard.
    """

    def __init__(self, folder: Path, shard: int) -> None:
        self._path = find_shard(folder, shard)
        self._shard = shard
        self._writer: FrameWriter | None = None
        self._is_synced = True
        # The count includes pieces of abandoned sources, so at worst more pieces than necessary go
        # to disk.
        self._waiting = 0

    def put_aside(self, events: Sequence[Event]) -> Sequence[Event]:
        """Move large pieces of events into the shard, and return the events.

        Raises:
            OSError: if the disk is full or fails.
        """
        return [
            event._replace(
                outputs=tuple(self._shrink(event.source, output) for output in event.outputs)
            )
            if any(map(self._must_leave, event.outputs))
            else event
            for event in events
        ]

    def keep(self, source: bytes, pieces: Iterable[Piece]) -> tuple[Piece, ...]:
        """Write a finished source's pieces to the shard. Return them sorted, with their locations.

        Raises:
            OSError: if the disk is full or fails.
        """
        pieces = sorted(pieces, key=_name)
        waited = sum(len(piece.data) for piece in pieces if isinstance(piece.data, bytes))
        self._waiting = max(0, self._waiting - waited)
        return tuple(self._locate(source, piece) for piece in pieces)

    def sync(self) -> None:
        """Make all kept pieces durable.

        Raises:
            OSError: if the disk is full or fails.
        """
        if self._writer is not None and not self._is_synced:
            faults.reach("shard.appended")
            self._writer.sync()
            self._is_synced = True
            faults.reach("shard.synced")

    def close(self) -> None:
        """Close the shard."""
        if self._writer is not None:
            self._writer.close()

    def _shrink(self, source: bytes, left: Left) -> Left:
        if not (isinstance(left, Piece) and isinstance(left.data, bytes)):
            return left
        placed = self._locate(source, left)
        faults.reach("piece.kept")
        return placed

    def _must_leave(self, left: Left) -> bool:
        """Return True if a piece must go to disk. Otherwise, add its bytes to the count."""
        if not (isinstance(left, Piece) and isinstance(left.data, bytes)):
            return False
        size = len(left.data)
        if size > LARGE_BYTES or self._waiting + size > WAITING_BYTES:
            return True
        self._waiting += size
        return False

    def _locate(self, source: bytes, piece: Piece) -> Piece:
        if isinstance(piece.data, PieceLocation):
            return piece
        if self._writer is None:
            # Append to the shard: all phases of an attempt share it, but use separate PieceStores.
            self._writer = FrameWriter(self._path, goes_on=True)
        self._is_synced = False
        at = self._writer.append(Title(source, piece.token, piece.stage), piece.data)
        location = PieceLocation(self._shard, at, len(piece.data), digest_bytes(piece.data))
        return piece._replace(data=location)


def split(left: Iterable[Left]) -> tuple[tuple[Output, ...], list[Piece]]:
    """Split the results of a finished source into sorted outputs and pieces."""
    outputs: list[Output] = []
    pieces: list[Piece] = []
    for piece in left:
        outputs.append(piece) if isinstance(piece, Output) else pieces.append(piece)
    return tuple(sorted(outputs)), pieces


def find_shard(folder: Path, number: int) -> Path:
    """Return the path of a shard."""
    return folder / f"{number:06d}.shard"


def read_shard_number(path: Path) -> int | None:
    """Return the number in the name of a shard file, or None if the path is not a shard."""
    return int(path.stem) if path.suffix == ".shard" and path.stem.isdecimal() else None


def _name(piece: Piece) -> tuple[str, bytes]:
    return piece.stage, piece.token
