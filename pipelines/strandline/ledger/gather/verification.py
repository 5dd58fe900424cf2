"""Verifies that ledger, shards, pack, and merged files agree about gathered pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from strandline.ledger.gather.piece_reader import PieceReader
from strandline.ledger.gather.pieces import find_shard
from strandline.ledger.gather.state import GatherState, find_merged, find_pack, read_state
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Piece, PieceLocation
from strandline.storage.outputs.disk.shards import DamagedFileError, Title, measure_head
from strandline.storage.outputs.hashing import digest_file

_EVER = (1 << 63) - 1


class PieceVerdict(NamedTuple):
    """Number of pieces named by the ledger, and a sentence per problem."""

    pieces: int
    problems: list[str]


def verify_pieces(store: Store, folder: Path, *, reads_bytes: bool = True) -> PieceVerdict:
    """Compare the pieces named by the ledger with the files in the folder of shards.

    Args:
        store: the ledger. If a gathering replaces files during the comparison, the comparison is
            repeated.
        folder: folder of the shards.
        reads_bytes: also read each piece and compare its digest; otherwise, compare only sizes.
    """
    while True:
        state = read_state(store)
        verdict = _verify_state(store, folder, state, reads_bytes=reads_bytes)
        if not verdict.problems or read_state(store).serial == state.serial:
            return verdict


def find_hurt(store: Store, folder: Path) -> tuple[set[bytes], bool]:
    """Return the sources with unreadable pieces, and whether merged files are damaged."""
    state = read_state(store)
    hurt = {source for source, _ in _find_damaged(store, folder, state, Counter())}
    return hurt, any(_check_merged(folder, state, reads_bytes=True))


def _verify_state(
    store: Store, folder: Path, state: GatherState, *, reads_bytes: bool
) -> PieceVerdict:
    counts: Counter[str] = Counter()
    damaged = _find_damaged(store, folder, state, counts, reads_bytes=reads_bytes)
    problems = [problem for _, problem in damaged]
    problems += _check_merged(folder, state, reads_bytes=reads_bytes)
    if _is_settled(store, state):
        problems += [
            f"stage {stage!r}: {merged.pieces} of {counts[stage]} pieces are merged"
            for stage, merged in state.merged.items()
            if merged.pieces != counts[stage]
        ]
    return PieceVerdict(counts.total(), problems)


def _find_damaged(
    store: Store,
    folder: Path,
    state: GatherState,
    counts: Counter[str],
    *,
    reads_bytes: bool = True,
) -> Iterator[tuple[bytes, str]]:
    """Yield the source and the damage of each damaged piece. Count all pieces by stage."""
    with closing(PieceReader(folder, state)) as reader:
        for source, pieces in store.list_pieces(_EVER, is_whole=True):
            for piece in pieces:
                counts[piece.stage] += 1
                try:
                    if reads_bytes:
                        reader.read(source, piece)
                    else:
                        _check_extent(folder, state, Title(source, piece.token, piece.stage), piece)
                except DamagedFileError as error:
                    yield source, str(error)


def _is_settled(store: Store, state: GatherState) -> bool:
    """Return True if all existing pieces have been merged."""
    is_new = next(store.list_pieces(_EVER, is_whole=False), None) is not None
    return state.is_sealed and not is_new and state.drops == int(store.read_meta("drops") or 0)


def _check_extent(folder: Path, state: GatherState, title: Title, piece: Piece) -> None:
    location = piece.data
    assert isinstance(location, PieceLocation)  # records contain only locations
    is_packed = location.shard <= state.through
    path = find_pack(folder, state) if is_packed else find_shard(folder, location.shard)
    end = (0 if is_packed else location.offset) + measure_head(title) + location.size
    if not path.is_file() or path.stat().st_size < end:
        raise DamagedFileError(f"{path}: missing or truncated")


def _check_merged(folder: Path, state: GatherState, *, reads_bytes: bool) -> Iterator[str]:
    for stage, (_, size, digest) in state.merged.items():
        path = find_merged(folder, state, stage)
        if not path.is_file() or path.stat().st_size != size:
            yield f"{path}: missing or of another size"
        elif reads_bytes:
            with path.open("rb") as file:
                if digest_file(file).hex() != digest:
                    yield f"{path}: changed since it was written"
