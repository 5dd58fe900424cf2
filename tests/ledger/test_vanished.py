"""Sources that a listing no longer names go, with what they left; also out of quarantine."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ledger_builders import Desk, counts, failed, finish_of, listed, output_of, written
from strandline.ledger.entries import (
    QUARANTINED,
    RELEASED,
    Change,
    FailureRecord,
    Listed,
    Mark,
    Quarantined,
)
from strandline.ledger.quarantine import Crash, accuse
from strandline.ledger.store.store import Store
from strandline.ledger.store.vanished import Seen, find_vanished
from strandline.storage.errors import VolumeError

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))
A2 = listed("a", version="2")


def removed(desk: Desk) -> list[str]:
    """What was done about what vanished, in order."""
    return [step[0] for step in desk.log if A.source in step]


@pytest.mark.parametrize("deletes", [True, False])
def test_a_quarantined_source_that_vanished_goes_with_its_leftovers(
    desk: Desk, deletes: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    keeper = desk.next_attempt(5, deletes_vanished=deletes)
    keeper.admit([B])
    keeper.end_listing(1)
    assert counts(inflight=1) == desk.store.count()
    # Marked before anything of it is removed, and forgotten when all is gone.
    assert ["mark", "remove_others", "forget"] == removed(desk)
    standing = keeper.drain(0, anything_died=False)
    assert (1, 0) == (standing.removed, standing.quarantined)


@pytest.mark.parametrize("deletes", [True, False])
@pytest.mark.parametrize(("named", "verdict"), [(A, QUARANTINED), (A2, RELEASED)])
def test_a_quarantined_source_that_is_listed_stays(
    desk: Desk, named: Listed, verdict: int, deletes: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    keeper = desk.next_attempt(5, deletes_vanished=deletes)
    assert [verdict] == keeper.admit([named])
    keeper.end_listing(1)
    is_parked = verdict == QUARANTINED
    assert counts(quarantined=int(is_parked), inflight=int(not is_parked)) == desk.store.count()
    assert 0 == keeper.drain(0, anything_died=False).removed
    assert "remove_others" not in removed(desk)


@pytest.mark.parametrize("deletes", [True, False])
def test_a_source_that_this_attempt_quarantined_stays(desk: Desk, deletes: bool) -> None:
    keeper = desk.next_attempt(2, deletes_vanished=deletes, quarantine_after=1)
    keeper.admit([A])
    keeper.apply(1, [], [failed(A)])
    keeper.commit()
    keeper.end_listing(1)
    assert counts(quarantined=1) == desk.store.count()
    assert 1 == keeper.drain(1, anything_died=False).quarantined


def test_a_source_that_a_crash_quarantined_goes_only_if_it_vanished(desk: Desk) -> None:
    """It carries the number of the attempt that crashed, not of the one that lists."""
    desk.keeper.admit([A, B])
    crash = Crash(1, {A.source}, (), "Killed", "gone")
    accuse(desk.store, crash, quarantine_after=1)
    keeper = desk.next_attempt(2)
    assert [QUARANTINED, RELEASED] == keeper.admit([A, B])
    keeper.end_listing(2)
    assert counts(quarantined=1, inflight=1) == desk.store.count()
    keeper = desk.next_attempt(3)
    keeper.admit([B])
    keeper.end_listing(1)
    assert counts(inflight=1) == desk.store.count()


def test_a_suspect_that_vanished_goes(desk: Desk) -> None:
    desk.keeper.admit([A, B])
    crash = Crash(1, {A.source, B.source}, (), "Killed", "gone")
    accuse(desk.store, crash, quarantine_after=3)
    keeper = desk.next_attempt(2)
    assert [RELEASED + 2] == keeper.admit([B])
    keeper.end_listing(1)
    assert {B.source} == {source for source, _ in desk.store.list_marks()}
    assert 1 == keeper.drain(0, anything_died=False).removed


@pytest.mark.parametrize("deletes", [True, False])
def test_law_what_a_listing_with_a_gap_does_not_name_stays(desk: Desk, deletes: bool) -> None:
    desk.fail_in(A, 2, 3, 4)  # quarantined
    keeper = desk.next_attempt(5, deletes_vanished=deletes)
    keeper.admit([A, B, C, D])
    keeper.apply(1, [written(B)], [failed(C)])
    keeper.drain(1, anything_died=False)
    before = desk.store.count()
    assert counts(finished=1, failed=1, inflight=1, quarantined=1) == before
    keeper = desk.next_attempt(6, deletes_vanished=deletes)
    keeper.end_listing(0, is_whole=False)
    assert 0 == keeper.drain(0, anything_died=False).removed
    assert before == desk.store.count()


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_removal_that_fails_half_way_leaves_a_source_to_be_done_anew(
    desk: Desk, comes_back: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    keeper = desk.next_attempt(5)
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        keeper.end_listing(0)
    assert Mark("a", b"", 0, 0, is_stale=True) == desk.find_mark(A)
    desk.outputs.is_broken = False
    keeper = desk.next_attempt(6)
    if comes_back:
        assert [RELEASED] == keeper.admit([A])
        keeper.apply(1, [written(A)])
    keeper.end_listing(int(comes_back))
    keeper.drain(int(comes_back), anything_died=False)
    assert counts(finished=int(comes_back)) == desk.store.count()
    assert "remove_others" in removed(desk)


@pytest.fixture
def mixed(store: Store) -> Store:
    """`a` is finished, `b` failed, `c` is quarantined and `d` in flight, all since attempt 3."""
    store.take_lease({"attempt": 3, "uid": "a"})
    store.write(
        Change(
            finish=[finish_of(A, output_of(A))],
            fail=[(B.source, FailureRecord("b", 3, "decode", "no", 1, B.version))],
            quarantine=[(C.source, Quarantined("c", C.version, 3, "Killed", "", "no", 3))],
            mark=[(D.source, Mark("d", D.version, 3, 3, is_stale=False))],
        )
    )
    return store


@pytest.mark.parametrize(
    ("attempt", "known", "seen", "vanished"),
    [
        (4, "", None, "bcd"),
        (4, "c", None, "bd"),
        (4, "bcd", None, ""),
        (3, "", None, ""),
        (4, "", "", "abcd"),
        (4, "bcd", "bcd", "a"),
        (4, "d", "ad", "bc"),
        (3, "", "", "a"),
    ],
)
def test_what_vanished_is_neither_known_nor_seen_nor_this_attempts(
    mixed: Store, attempt: int, known: str, seen: str | None, vanished: str
) -> None:
    noted = None if seen is None else Seen()
    if noted is not None and seen is not None:
        noted.add(digests(seen))
    found = dict(find_vanished(mixed, attempt, digests(known), noted))
    assert dict(zip(digests(vanished), vanished, strict=True)) == found


def digests(keys: str) -> Collection[bytes]:
    return [listed(key).source for key in keys]
