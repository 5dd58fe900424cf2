"""A writer counts each piece once, and only pieces of finished sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger_builders import Clock, RecordingOutputs, failed, listed, opened, output_of, root_of
from strandline.ledger.gather import pieces
from strandline.ledger.gather.pieces import LARGE_BYTES, PieceStore, find_shard
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.records.entries import ListedSource
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.receipt import Event, Left, Piece, PieceLocation
from strandline.plan.token import derive_child
from strandline.storage.outputs.disk.shards import Title, open_frames, read_frame

A, B = listed("a"), listed("b")


class Desk:
    """A writer with a piece store, and a ledger that can be read."""

    def __init__(self, path: Path, store: Store, pieces: PieceStore) -> None:
        self.path = path
        self.store = store
        self.writer = LedgerWriter(store, RecordingOutputs(), 1, Clock(), pieces=pieces)
        self.told = 0

    def tell(self, *events: Event) -> None:
        self.told += 1
        self.writer.apply(self.told, events)

    def read(self, source: ListedSource) -> list[tuple[str, bytes]]:
        """Return a source's pieces: their stages from the ledger, their content from the shard."""
        records = {digest: record for digest, _, record in self.store.list_records()}
        found = []
        with closing(open_frames(find_shard(self.path / "shards", 1), is_read_on=False)) as file:
            for piece in records[source.source].pieces:
                assert isinstance(piece.data, PieceLocation)
                title = Title(source.source, piece.token, piece.stage)
                found.append(
                    (piece.stage, read_frame(file, piece.data.offset, title, piece.data.size))
                )
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with (
        closing(PieceStore(tmp_path / "shards", 1)) as pieces,
        opened(tmp_path / "ledger") as store,
    ):
        yield Desk(tmp_path, store, pieces)


def gathered(source: ListedSource, data: bytes, stage: str = "words", child: bytes = b"") -> Event:
    """Return a gathering stage's event that settles the root task and passes the task on."""
    root = root_of(source)
    child = child or derive_child([root], stage, 0)
    return Event(source.source, (root,), (child,), (Piece(stage, root, data),))


def ended(source: ListedSource, stage: str = "words", *left: Left) -> Event:
    return Event(source.source, (derive_child([root_of(source)], stage, 0),), (), left)


def test_a_source_is_finished_with_its_pieces_and_its_outputs(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.tell(gathered(A, b"one"), ended(A, "words", output_of(A)), gathered(B, b"two"))
    desk.writer.commit()
    assert [("words", b"one")] == desk.read(A)
    ((_, _, record),) = desk.store.list_records()
    assert (output_of(A),) == record.outputs
    assert 1 == verify_pieces(desk.store, desk.path / "shards").pieces


def test_several_stages_have_a_piece_each(desk: Desk) -> None:
    desk.writer.admit([A])
    second = derive_child([root_of(A)], "words", 0)
    desk.tell(
        Event(A.source, (second,), (), (Piece("later", second, b"2"),)),  # any order is allowed
        gathered(A, b"1"),
    )
    desk.writer.commit()
    assert [("later", b"2"), ("words", b"1")] == desk.read(A)


def test_a_repeated_piece_counts_once(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.tell(gathered(A, b"one"), gathered(A, b"one"))
    desk.tell(gathered(A, b"one"), ended(A))
    desk.tell(gathered(A, b"one"))  # after the end of the source
    desk.writer.commit()
    desk.tell(gathered(A, b"one"))  # after the commit
    desk.writer.commit()
    assert [("words", b"one")] == desk.read(A)


def test_pieces_of_a_restarted_source_are_dropped(desk: Desk) -> None:
    desk.writer.admit([A])
    root = root_of(A)
    desk.tell(gathered(A, b"first"), gathered(A, b"x" * (LARGE_BYTES + 1)))
    desk.tell(Event(A.source, (root,), (root,)))
    desk.tell(gathered(A, b"second"), ended(A))
    desk.writer.commit()
    assert [("words", b"second")] == desk.read(A)


def test_pieces_of_a_failed_source_are_dropped(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.tell(gathered(A, b"a"), gathered(B, b"b"), ended(B))
    desk.told += 1
    desk.writer.apply(desk.told, [ended(A, "other")], [failed(A)])
    desk.tell(ended(A))
    desk.writer.commit()
    assert [b"b"] == [data for _, data in desk.read(B)]
    assert 1 == verify_pieces(desk.store, desk.path / "shards").pieces


@pytest.mark.parametrize(("size", "is_large"), [(LARGE_BYTES, False), (LARGE_BYTES + 1, True)])
def test_only_large_pieces_leave_memory_at_once(desk: Desk, size: int, is_large: bool) -> None:
    desk.writer.admit([A])
    desk.tell(gathered(A, b"x" * size))
    assert is_large == find_shard(desk.path / "shards", 1).exists()
    desk.tell(ended(A))
    desk.writer.commit()
    assert [("words", b"x" * size)] == desk.read(A)


def test_pieces_waiting_in_memory_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "WAITING_BYTES", 250)
    sources = [listed(f"source {number}") for number in range(4)]
    desk.writer.admit(sources)
    for source in sources[:3]:
        desk.tell(gathered(source, b"x" * 100))
    assert find_shard(desk.path / "shards", 1).exists()  # the third piece exceeded the limit
    desk.tell(*(ended(source) for source in sources[:3]))
    desk.writer.commit()
    size = find_shard(desk.path / "shards", 1).stat().st_size
    desk.tell(gathered(sources[3], b"x" * 100))  # memory is free again, so the piece stays there
    assert find_shard(desk.path / "shards", 1).stat().st_size == size
    desk.tell(ended(sources[3]))
    desk.writer.commit()
    assert [[("words", b"x" * 100)]] * 4 == [desk.read(source) for source in sources]


def test_without_pieces_there_is_no_shard(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.tell(Event(A.source, (root_of(A),), ()))
    desk.writer.commit()
    assert not (desk.path / "shards").exists()
    assert {"finished": 1, "failed": 0, "inflight": 0, "quarantined": 0} == desk.store.count()
