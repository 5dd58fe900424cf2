"""A version that failed too often is not retried until it changes or is released."""

from __future__ import annotations

from itertools import islice

import pytest

from ledger_builders import (
    Desk,
    claim,
    claimant,
    counts,
    failed,
    finish_of,
    listed,
    output_of,
    root_of,
    written,
)
from strandline.ledger.access.lease import OnChange, open_attempt, restart
from strandline.ledger.errors import DuplicateKeyError, UnknownSourceError
from strandline.ledger.quarantine import Crash, accuse, release
from strandline.ledger.records.entries import (
    QUARANTINED,
    RELEASED,
    Change,
    FailureRecord,
    ListedSource,
    Mark,
    QuarantinedSource,
    Standing,
)
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Event
from strandline.storage.errors import VolumeError
from strandline_api.outcome.exit_codes import ExitCode

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))
A2 = listed("a", version="2")
CAUSE = "ApplicationError"


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_a_source_is_parked_at_the_failure_limit(desk: Desk, after: int) -> None:
    writer = desk.fail_in(A, *range(2, after + 1), quarantine_after=after)
    assert desk.find_quarantined(A) is None
    writer = desk.fail_in(A, after + 1, quarantine_after=after)
    parked = QuarantinedSource("a", A.version, after + 1, CAUSE, "decode", "no such codec", after)
    assert parked == desk.find_quarantined(A)
    assert counts(quarantined=1) == desk.store.count()
    standing = writer.drain(1, anything_died=False)
    assert Standing(0, 0, failed=0, unfinished=0, removed=0, quarantined=1) == standing


def test_the_cause_is_that_of_the_last_failure(desk: Desk) -> None:
    writer = desk.next_attempt(2, quarantine_after=1)
    writer.admit([A, B])
    writer.apply(1, [], [failed(A)._replace(cause="OOMKilled"), failed(B)])
    writer.commit()
    causes = {parked.key: parked.cause for _, parked in desk.store.list_quarantined()}
    assert {"a": "OOMKilled", "b": CAUSE} == causes


def test_parked_sources_are_not_released_but_counted_in_every_attempt(desk: Desk) -> None:
    desk.fail_in(A, 2, 3, 4)
    before = desk.find_quarantined(A)
    for attempt in (5, 6):
        writer = desk.next_attempt(attempt)
        assert [QUARANTINED, RELEASED] == writer.admit([A, B])
        assert [("mark", B.source)] == desk.log
        standing = writer.drain(0, anything_died=False)
        assert Standing(0, 0, 0, unfinished=1, removed=0, quarantined=1) == standing
        assert before == desk.find_quarantined(A)


def test_a_new_version_leaves_the_quarantine_with_a_fresh_count(desk: Desk) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5)
    assert [RELEASED] == writer.admit([A2])
    assert Mark("a", A2.version, 5, 0, is_stale=True, failed_before=0) == desk.find_mark(A)
    assert counts(inflight=1) == desk.store.count()
    desk.fail_in(A2, 6, 7)
    assert counts(failed=1) == desk.store.count()
    desk.fail_in(A2, 8)
    parked = desk.find_quarantined(A)
    assert parked is not None
    assert (A2.version, 3) == (parked.version, parked.times)


def test_a_version_listed_again_is_retried(desk: Desk) -> None:
    desk.fail_in(A, 2, 3, 4)
    desk.next_attempt(5).admit([A2])
    assert [RELEASED] == desk.next_attempt(6).admit([A])
    assert 0 == desk.find_mark(A).failed_before


@pytest.mark.parametrize("is_lost_between", [True, False])
def test_failures_of_another_version_do_not_count(desk: Desk, is_lost_between: bool) -> None:
    desk.fail_in(A, 2, 3)
    if is_lost_between:
        desk.next_attempt(4).admit([A])
        assert 2 == desk.find_mark(A).failed_before
    desk.fail_in(A2, 5)
    assert [1] == [failure.times for _, failure in desk.store.list_failures()]


def test_leftovers_of_a_parked_source_are_removed_when_it_finishes(desk: Desk) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5)
    writer.admit([A2])
    writer.apply(1, [written(A2, output_of(A2))])
    writer.commit()
    kept = [root_of(A2).hex() + ".txt"]
    assert ("remove_others", A.source, kept) in desk.log
    assert counts(finished=1) == desk.store.count()


@pytest.mark.parametrize("again", [A, A2])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_quarantined_key_listed_twice_is_refused(
    desk: Desk, again: ListedSource, in_one_batch: bool
) -> None:
    desk.fail_in(A, 2, 3, 4)
    writer = desk.next_attempt(5)
    again = again._replace(ordinal=9)
    told = "'a' is listed twice: as item 9 and once before, when it was quarantined;"
    if not in_one_batch:
        writer.admit([A])
    with pytest.raises(DuplicateKeyError, match=told):
        writer.admit([A, again] if in_one_batch else [again])
    assert counts(quarantined=1) == desk.store.count()


@pytest.mark.parametrize("again", [A, A2])
def test_a_key_quarantined_by_this_attempt_is_refused_when_listed_again(
    desk: Desk, again: ListedSource
) -> None:
    writer = desk.fail_in(A, 2, 3, 4)
    with pytest.raises(DuplicateKeyError, match="when it was quarantined"):
        writer.admit([again])


def test_late_events_of_a_parked_source_are_ignored(desk: Desk) -> None:
    writer = desk.fail_in(A, 2, 3, 4)
    writer.apply(2, [written(A), Event(A.source, (), (root_of(A),))], [failed(A)])
    standing = writer.drain(2, anything_died=False)
    assert Standing(0, 0, failed=0, unfinished=0, removed=0, quarantined=1) == standing
    assert counts(quarantined=1) == desk.store.count()


def test_a_group_that_parks_is_one_transaction(desk: Desk) -> None:
    desk.fail_in(A, 2, 3)
    writer = desk.next_attempt(4)
    writer.admit([A, B, C])
    writer.apply(1, [written(B)], [failed(A), failed(C)])
    before = desk.store._env.info()["last_txnid"]
    writer.commit()
    assert counts(finished=1, failed=1, quarantined=1) == desk.store.count()
    assert before + 1 == desk.store._env.info()["last_txnid"]


def test_a_failed_commit_parks_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.fail_in(A, 2, 3)
    writer = desk.next_attempt(4)
    writer.admit([A])
    writer.apply(1, [], [failed(A)])
    arm(monkeypatch)
    with pytest.raises(VolumeError):
        writer.commit()
    assert counts(inflight=1) == desk.store.count()
    assert 1 == writer.drain(1, anything_died=False).quarantined
    assert counts(quarantined=1) == desk.store.count()


def arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a full disk for the next transaction only."""
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
    monkeypatch.setattr("strandline.storage.faults._reached", {"commit.written": 0})


def test_remaining_counts_exclude_previously_finished_and_quarantined_sources(desk: Desk) -> None:
    desk.fail_in(A, 2, 3)
    writer = desk.next_attempt(4)
    writer.admit([A, B, C])
    writer.apply(1, [written(B)], [failed(A)])
    writer.end_listing(3)
    assert {"attempt": 4, "finished": 0, "remaining": 3} == desk.store.read_meta("progress")
    writer.drain(1, anything_died=False)  # quarantines one source
    writer.apply(2, [written(C)])
    writer.commit()
    assert {"attempt": 4, "finished": 2, "remaining": 3} == desk.store.read_meta("progress")
    writer = desk.next_attempt(5)
    writer.admit([A, B, C, D])
    writer.end_listing(4)
    assert {"attempt": 5, "finished": 0, "remaining": 1} == desk.store.read_meta("progress")


@pytest.fixture
def full(desk: Desk) -> Desk:
    """Return a ledger with three sources in quarantine."""
    for source in (A, B, C):
        desk.fail_in(source, 2, 3, 4)
    return desk


def test_released_sources_are_tried_again(full: Desk) -> None:
    assert ["a", "c"] == release(full.store, ["c", "a", "c"])
    assert counts(inflight=2, quarantined=1) == full.store.count()
    writer = full.next_attempt(5)
    assert [RELEASED, QUARANTINED, RELEASED] == writer.admit([A, B, C])
    assert Mark("a", A.version, 5, 0, is_stale=True, failed_before=0) == full.find_mark(A)
    assert 1 == writer.drain(0, anything_died=False).quarantined


def test_all_are_released_at_once(full: Desk) -> None:
    assert ["a", "b", "c"] == release(full.store, None)
    assert counts(inflight=3) == full.store.count()
    assert [] == release(full.store, None)
    assert [] == release(full.store, [])


@pytest.mark.parametrize("keys", [["x", "a", "in/y"], ["in/y", "x"]])
def test_unknown_keys_are_named_and_nothing_is_released(full: Desk, keys: list[str]) -> None:
    told = "^not in quarantine: 'in/y', 'x'; no source was released$"
    with pytest.raises(UnknownSourceError, match=told) as caught:
        release(full.store, keys)
    assert ExitCode.BAD_SPEC == caught.value.exit_code
    assert counts(quarantined=3) == full.store.count()


def test_a_source_that_is_not_in_quarantine_can_not_be_released(full: Desk) -> None:
    full.next_attempt(5).admit([D])
    with pytest.raises(UnknownSourceError, match="not in quarantine: 'd'"):
        release(full.store, ["d"])
    assert 5 == full.find_mark(D).attempt


@pytest.fixture
def mixed(store: Store) -> Store:
    """Return a ledger with sources that are finished, failed, quarantined, and in flight (two)."""
    store.write(
        Change(
            finish=[finish_of(A, output_of(A))],
            fail=[(B.source, FailureRecord("b", 1, "decode", "no", 2, B.version))],
            quarantine=[(C.source, QuarantinedSource("c", C.version, 1, CAUSE, "decode", "no", 3))],
            mark=[
                (D.source, Mark("d", D.version, 1, 3, is_stale=False, failed_before=2, exposed=1)),
                (listed("e").source, Mark("e", D.version, 1, 4, is_stale=False)),
            ],
        )
    )
    return store


def test_a_restart_forgets_all_blame(mixed: Store) -> None:
    restart(mixed)
    marks = dict(mixed.list_marks())
    assert counts(inflight=5) == mixed.count()
    assert {Mark(mark.key, mark.version, 0, 0, is_stale=True) for mark in marks.values()} == set(
        marks.values()
    )
    assert {"a", "b", "c", "d", "e"} == {mark.key for mark in marks.values()}
    assert C.version == marks[C.source].version


def test_a_repeated_restart_writes_nothing(mixed: Store) -> None:
    restart(mixed)
    before = mixed._env.info()["last_txnid"]
    restart(mixed)
    assert before == mixed._env.info()["last_txnid"]


def test_a_restart_goes_through_groups_of_all_states(
    mixed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.ledger.access.lease.islice", lambda items, _: islice(items, 1))
    restart(mixed)
    assert counts(inflight=5) == mixed.count()
    assert {(0, 0, 0)} == {
        (mark.attempt, mark.failed_before, mark.exposed) for _, mark in mixed.list_marks()
    }


@pytest.mark.parametrize("on_change", [OnChange.RESTART, OnChange.CONTINUE])
def test_only_a_restart_empties_the_quarantine_of_a_changed_pipeline(
    mixed: Store, on_change: OnChange
) -> None:
    open_attempt(mixed, claim(minWords=5), claimant("a"))
    open_attempt(mixed, claim(on_change=on_change, minWords=8), claimant("b"))
    is_restart = on_change is OnChange.RESTART
    assert (0 if is_restart else 1) == mixed.count()["quarantined"]


def test_a_crash_before_a_restart_blames_no_source(mixed: Store) -> None:
    """A takeover first restarts the ledger, and then evaluates how the previous attempt ended."""
    restart(mixed)
    assert 0 == accuse(mixed, Crash(1, {D.source}, (), "Killed", "gone"), quarantine_after=1)
    assert counts(inflight=5) == mixed.count()
