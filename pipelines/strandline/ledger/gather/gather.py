"""Gathering: merges the pieces that sources hand over to a stage into one file per stage.

While sources finish, a gathering only joins new pieces to the previously merged file. A complete
gathering reads all pieces in the order of their sources' digests, copies them into a pack, and
removes the shards, so the result depends only on the finished sources. The ledger has the list of
pieces. A transaction names new files only after they are complete; files without a name in the
ledger are removed afterward. Merged files are a cache: if a source with pieces is dropped, they are
rebuilt from pack and shards.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.merge import Merge, MergeError, MergeTree
from strandline.ledger.gather.piece_reader import PieceReader
from strandline.ledger.gather.pieces import read_shard_number
from strandline.ledger.gather.space import find_free, measure_need
from strandline.ledger.gather.state import (
    GatherState,
    MergedFile,
    find_merged,
    find_pack,
    is_merged_there,
    read_state,
)
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Piece
from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder, sync_folder
from strandline.storage.outputs.disk.shards import (
    DamagedFileError,
    FrameWriter,
    Title,
    move_into,
    sync_file,
)
from strandline.storage.outputs.hashing import digest_file

SCRATCH = "scratch"


def gather(
    store: Store,
    folder: Path,
    merges: Mapping[str, Merge],
    *,
    is_whole: bool,
    is_brief: bool = False,
    must_stop: Callable[[], bool] = lambda: False,
) -> GatherState:
    """Merge the pieces gathered since the last call, or all pieces if the merged files are invalid.

    Only one gathering may run at a time. A gathering may be killed at any point and repeated any
    number of times.

    Args:
        store: the ledger; sources may finish during the call.
        folder: folder of the shards.
        merges: functions that join a stage's files, by stage name.
        is_whole: also copy all pieces into a pack, in order. No shard may be written during the
            call.
        is_brief: return without work if all pieces would have to be read. The caller must start
            another gathering soon.
        must_stop: called before each piece and each join; if it returns True, the call ends with a
            `MergeError`.

    Raises:
        MergeError: if a stage can't merge; previous results stay.
        LedgerError: if a shard or the pack is damaged.
        VolumeError: if the disk is full or fails.
    """
    before = read_state(store)
    generation, drops = int(store.read_meta("generation") or 0), int(store.read_meta("drops") or 0)
    is_valid = before.drops == drops and before.stages == tuple(sorted(merges))
    is_valid = is_valid and all(is_merged_there(folder, before, stage) for stage in before.merged)
    is_new = next(store.list_pieces(generation, is_whole=False), None) is not None
    last_shard = int(store.read_meta("lease")["attempt"])
    if is_brief and not is_valid:
        return before
    if is_valid and not is_new and (before.is_sealed or not is_whole):
        with naming_volume(folder):
            # The pack has all pieces that count, so later shards contain only pieces of abandoned
            # tries.
            _clean(folder, replace(before, through=last_shard) if is_whole else before)
        return before
    store.write(Change(meta={"generation": generation + 1}))
    work = _Gathering(store, folder, before, merges, must_stop)
    if is_whole:
        work.seal(generation, last_shard)
    state = work.run(generation, reads_all=is_whole or not is_valid)
    state = replace(state, drops=drops, is_sealed=is_whole)
    store.write(Change(meta={"gathered": state.to_json()}, gathered=generation))
    with naming_volume(folder):
        faults.reach("gather.committed")
        _clean(folder, state)
        faults.reach("gather.cleaned")
    return state


class _Gathering:
    def __init__(
        self,
        store: Store,
        folder: Path,
        before: GatherState,
        merges: Mapping[str, Merge],
        must_stop: Callable[[], bool],
    ) -> None:
        self._store = store
        self._folder = folder
        self._before = before
        self._merges = merges
        self._must_stop = must_stop
        self._scratch = folder / SCRATCH
        self._trees: dict[str, MergeTree] = {}
        self._counts: Counter[str] = Counter()

    def seal(self, generation: int, last_shard: int) -> None:
        """Copy all pieces into a new pack, and remove the shards before the pieces are merged.

        This order saves space: the volume never holds shards and newly merged files at the same
        time. Previously merged files stay, and their pieces count as new until they are merged
        again.
        """
        serial = max(self._before.serial, self._before.pack) + 1
        with naming_volume(self._folder), self._scratching(), self._packing(serial) as pack:
            for source, piece, data in self._read_all(generation, is_whole=True):
                pack.append(Title(source, piece.token, piece.stage), data)
        state = replace(self._before, is_sealed=False, pack=serial, through=last_shard)
        self._store.write(Change(meta={"gathered": state.to_json()}))
        with naming_volume(self._folder):
            faults.reach("gather.committed")
            _clean(self._folder, state)
            faults.reach("gather.cleaned")
        self._before = state

    def run(self, generation: int, *, reads_all: bool) -> GatherState:
        """Write the merged files, and return the state to record in the ledger."""
        serial = self._before.serial + 1
        after = replace(self._before, serial=serial, stages=tuple(sorted(self._merges)))
        with naming_volume(self._folder), self._scratching():
            if reads_all and find_free(self._folder) < measure_need(self._folder):
                # Delete the merged files to free space: they are a cache, and this gathering
                # rebuilds them. If this gathering fails, the next gathering does.
                _remove_folder(find_merged(self._folder, self._before, "").parent)
            for _, piece, data in self._read_all(generation, is_whole=reads_all):
                if piece.stage in self._merges:
                    self._counts[piece.stage] += 1
                    self._find_tree(piece.stage).add(data)
            merged = self._finish(after, {} if reads_all else self._before.merged)
        return replace(after, merged=merged)

    @contextmanager
    def _scratching(self) -> Iterator[None]:
        """Create a folder for incomplete files. After an error, remove it to free space."""
        _remove(self._scratch)
        make_folder(self._scratch)
        try:
            yield
        except BaseException:
            with suppress(OSError):
                _remove(self._scratch)
            raise

    @contextmanager
    def _packing(self, serial: int) -> Iterator[FrameWriter]:
        """Open a pack for writing. At the end, sync it and move it to its final place."""
        with closing(FrameWriter(self._scratch / "pack")) as pack:
            yield pack
            faults.reach("pack.written")
            pack.sync()
        move_into(self._scratch / "pack", self._folder / f"{serial:06d}.pack")
        faults.reach("pack.synced")

    def _read_all(self, generation: int, *, is_whole: bool) -> Iterator[tuple[bytes, Piece, bytes]]:
        """Yield the source, the description, and the bytes of each piece.

        Raises:
            MergeError: if a stop was requested.
            LedgerError: if a piece is damaged.
        """
        with closing(PieceReader(self._folder, self._before)) as reader:
            for source, pieces in self._store.list_pieces(generation, is_whole=is_whole):
                for piece in pieces:
                    if self._must_stop():
                        raise MergeError("the gathering was stopped")
                    try:
                        data = reader.read(source, piece)
                    except DamagedFileError as error:
                        msg = f"{error}; restore it from a copy, or move the ledger away"
                        raise LedgerError(f"{msg} to start over") from error
                    yield source, piece, data

    def _finish(
        self, after: GatherState, before: Mapping[str, MergedFile]
    ) -> dict[str, MergedFile]:
        """Join new pieces to the previous merged files, and move the results into place."""
        made = self._scratch / "merged"
        made.mkdir()
        merged = {}
        for stage in sorted({*self._trees, *before}):
            out = made / f"{stage}.merged"
            first = find_merged(self._folder, self._before, stage) if stage in before else None
            self._find_tree(stage).finish(out, first)
            pieces = self._counts[stage] + (before[stage].pieces if stage in before else 0)
            with out.open("rb") as file:
                digest = digest_file(file).hex()
            merged[stage] = MergedFile(pieces, out.stat().st_size, digest)
        faults.reach("merged.written")
        for path in made.iterdir():
            sync_file(path)
        sync_folder(made)
        move_into(made, find_merged(self._folder, after, "").parent)
        faults.reach("merged.synced")
        return merged

    def _find_tree(self, stage: str) -> MergeTree:
        if stage not in self._trees:
            folder = self._scratch / f"of-{stage}"
            folder.mkdir()
            self._trees[stage] = MergeTree(stage, self._merges[stage], folder, self._must_stop)
        return self._trees[stage]


def _clean(folder: Path, state: GatherState) -> None:
    """Remove files that the ledger does not name."""
    named = {find_pack(folder, state).name, find_merged(folder, state, "").parent.name}
    for path in folder.iterdir() if folder.is_dir() else ():
        shard = read_shard_number(path)
        if path.name not in named and (shard is None or shard <= state.through):
            _remove(path)


def _remove_folder(path: Path) -> None:
    if path.is_dir():
        _remove(path)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
