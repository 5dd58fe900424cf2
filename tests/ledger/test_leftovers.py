"""Leftovers of earlier tries are removed after the commit, under the lease, even after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_builders import Desk, failed, finish_of, listed, opened, output_of, written
from output_builders import write_output
from strandline.ledger.checks.verification import verify
from strandline.ledger.errors import LeaseLostError
from strandline.ledger.output_root import clean_up
from strandline.ledger.records.entries import Change, Mark
from strandline.ledger.store.store import Store
from strandline.ledger.store.vanished import clean_away
from strandline.plan.token import derive_root
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_source_folder

A, B, C = (listed(key, ordinal=place) for place, key in enumerate("abc"))
LEASE = {"attempt": 9, "uid": "successor"}


def take_over(desk: Desk) -> None:
    """Give the ledger to another attempt, unnoticed by the previous writer."""
    desk.store.write(Change(meta={"lease": LEASE}))
    desk.log.clear()


def be_overtaken_after_a_removal(desk: Desk) -> None:
    """Give the ledger to another attempt immediately after a removal of files."""
    remove = desk.outputs.remove_others

    def be_overtaken(source: bytes, keep: set[str]) -> int:
        count = remove(source, keep)
        desk.store.write(Change(meta={"lease": LEASE}))
        return count

    desk.outputs.remove_others = be_overtaken  # type: ignore[method-assign,assignment]


def removals(desk: Desk) -> list[bytes]:
    return [step[1] for step in desk.log if step[0] == "remove_others"]


def test_a_writer_without_the_lease_removes_nothing(desk: Desk) -> None:
    desk.writer.admit([A])
    writer = desk.next_attempt(2)
    writer.admit([A])
    writer.apply(1, [written(A, output_of(A))])
    take_over(desk)
    with pytest.raises(LeaseLostError):
        writer.commit()
    assert [] == desk.log


def test_a_writer_that_loses_the_lease_stops_removing(desk: Desk) -> None:
    desk.writer.admit([A, B])
    writer = desk.next_attempt(2)
    writer.admit([A, B])
    writer.apply(1, [written(A), written(B)])
    be_overtaken_after_a_removal(desk)
    with pytest.raises(LeaseLostError):
        writer.commit()
    assert 1 == len(removals(desk))


def test_a_writer_that_loses_the_lease_stops_removing_vanished_sources(desk: Desk) -> None:
    be_overtaken_after_a_removal(desk)
    with pytest.raises(LeaseLostError):
        clean_away(desk.store, desk.outputs, [(A.source, "a"), (B.source, "b")])
    assert 1 == len(removals(desk))


def test_removals_are_recorded_until_done(desk: Desk) -> None:
    desk.writer.admit([A])
    writer = desk.next_attempt(2)
    writer.admit([A, B])
    writer.apply(1, [written(A, output_of(A)), written(B)])
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        writer.commit()
    assert [A.source] == list(desk.store.list_untidy())
    desk.outputs.is_broken = False
    writer.drain(1, anything_died=False)
    assert [A.source] == removals(desk)
    assert [] == list(desk.store.list_untidy())


def test_the_next_attempt_finishes_removals(desk: Desk) -> None:
    desk.writer.admit([A])
    writer = desk.next_attempt(2)
    writer.admit([A])
    writer.apply(1, [written(A, output_of(A))])
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        writer.commit()
    desk.outputs.is_broken = False
    desk.next_attempt(3)
    assert 1 == clean_up(desk.store, desk.outputs)
    kept = [derive_root(A.source, A.version).hex() + ".txt"]
    assert [("remove_others", A.source, kept)] == desk.log
    assert 0 == clean_up(desk.store, desk.outputs)


def test_leftovers_of_a_restarted_source_stay_until_its_next_finish(desk: Desk) -> None:
    desk.store.write(Change(finish=[finish_of(A, output_of(A))], untidy=[A.source]))
    desk.store.write(Change(mark=[(A.source, Mark("a", A.version, 0, 0, is_stale=True))]))
    desk.log.clear()
    assert 1 == clean_up(desk.store, desk.outputs)
    assert [] == desk.log
    assert [] == list(desk.store.list_untidy())


def test_an_interrupted_cleanup_is_repeated(desk: Desk) -> None:
    desk.store.write(Change(finish=[finish_of(A)], untidy=[A.source]))
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        clean_up(desk.store, desk.outputs)
    desk.outputs.is_broken = False
    assert 1 == clean_up(desk.store, desk.outputs)


def test_an_attempt_without_the_lease_cleans_nothing_up(desk: Desk) -> None:
    desk.store.write(Change(finish=[finish_of(A)], untidy=[A.source]))
    take_over(desk)
    with pytest.raises(LeaseLostError):
        clean_up(desk.store, desk.outputs)
    assert [] == desk.log


def test_verification_ignores_pending_removals(tmp_path: Path) -> None:
    outputs = LocalOutputs(tmp_path / "output")
    with opened(tmp_path / "ledger") as store:
        write_output(outputs, A.source, "left.txt", lambda file: None)
        store.write(Change(finish=[finish_of(A)], untidy=[A.source]))
        assert [] == verify(store, outputs).problems
        store.take_lease({"attempt": 2, "uid": "b"})
        clean_up(store, outputs)
        assert [] == verify(store, outputs).problems
        assert not (outputs.root / name_source_folder(A.source)).exists()
        write_output(outputs, A.source, "strange.txt", lambda file: None)
        assert 1 == len(verify(store, outputs).problems)


def test_records_of_chosen_sources_are_found(store: Store) -> None:
    store.write(Change(finish=[finish_of(A, output_of(A)), finish_of(B)]))
    found = store.find_records([A.source, C.source])
    assert {A.source: finish_of(A, output_of(A)).record} == found


def test_a_failed_source_records_no_removal(desk: Desk) -> None:
    desk.writer.admit([A])
    writer = desk.next_attempt(2)
    writer.admit([A])
    writer.apply(1, [], [failed(A)])
    writer.commit()
    assert [] == list(desk.store.list_untidy())
