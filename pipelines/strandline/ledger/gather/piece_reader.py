"""Reads pieces from where they are stored now: a shard or the pack."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from strandline.ledger.gather.pieces import find_shard
from strandline.ledger.gather.state import GatherState, find_pack
from strandline.plan.receipt import Piece, PieceLocation
from strandline.storage.outputs.disk.shards import (
    DamagedFileError,
    PackReader,
    Title,
    digest_bytes,
    open_frames,
    read_frame,
)

OPEN_SHARDS = 64


class PieceReader:
    """Reads pieces in the order of their sources' digests, from shards or the pack."""

    def __init__(self, folder: Path, state: GatherState) -> None:
        self._folder = folder
        self._state = state
        self._pack: PackReader | None = None
        self._shards: dict[int, BinaryIO] = {}

    def close(self) -> None:
        """Close all open files."""
        if self._pack is not None:
            self._pack.close()
        for file in self._shards.values():
            file.close()

    def read(self, source: bytes, piece: Piece) -> bytes:
        """Return the bytes of a piece.

        Raises:
            DamagedFileError: if size or digest differ from the ledger.
        """
        location, title = piece.data, Title(source, piece.token, piece.stage)
        assert isinstance(location, PieceLocation)  # records contain only locations
        if location.shard <= self._state.through:
            data = self._find_pack().find(title, location.size)
        else:
            data = read_frame(
                self._find_shard(location.shard), location.offset, title, location.size
            )
        if (len(data), digest_bytes(data)) != (location.size, location.digest):
            raise DamagedFileError(f"{piece.stage} of {source.hex()}: changed since it was written")
        return data

    def _find_pack(self) -> PackReader:
        if self._pack is None:
            self._pack = PackReader(
                open_frames(find_pack(self._folder, self._state), is_read_on=True)
            )
        return self._pack

    def _find_shard(self, number: int) -> BinaryIO:
        if number not in self._shards:
            if len(self._shards) == OPEN_SHARDS:
                self._shards.pop(next(iter(self._shards))).close()
            self._shards[number] = open_frames(find_shard(self._folder, number), is_read_on=False)
        return self._shards[number]
