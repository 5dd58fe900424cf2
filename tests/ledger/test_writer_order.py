"""A writer makes changes durable in a fixed order, and commits at defined times."""

from __future__ import annotations

import pytest

from ledger_builders import Desk, counts, failed, listed, output_of, root_of, written
from strandline.ledger.errors import NegativePendingCountError, NonDeterministicTaskError
from strandline.ledger.records.entries import RELEASED, SourceRecord, Standing
from strandline.ledger.writer.writer import GROUP_SECONDS
from strandline.plan.receipt import Event
from strandline.plan.token import derive_child
from strandline.storage.errors import VolumeError

A, B, C = (listed(key, ordinal=place) for place, key in enumerate("abc"))


def test_marks_are_durable_before_sources_are_released(desk: Desk) -> None:
    assert [RELEASED, RELEASED] == desk.writer.admit([A, B])
    assert [("mark", A.source, B.source)] == desk.log
    marks = dict(desk.store.list_marks())
    assert {A.source: ("a", 1, 0, False), B.source: ("b", 1, 1, False)} == {
        source: (mark.key, mark.attempt, mark.ordinal, mark.is_stale)
        for source, mark in marks.items()
    }


def test_nothing_is_released_when_marks_cannot_be_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
    monkeypatch.setattr("strandline.storage.faults._reached", {"commit.written": 0})
    with pytest.raises(VolumeError):
        desk.writer.admit([A])
    assert {} == desk.store.find_marks([A.source])


def test_a_source_is_committed_with_its_outputs_and_without_its_mark(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.writer.apply(1, [written(A, output_of(A))])
    assert 0 == desk.writer.finished
    desk.writer.commit()
    assert 1 == desk.writer.finished
    ((source, entry, record),) = desk.store.list_records()
    assert (A.source, A.version) == (source, entry.version)
    assert SourceRecord("a", (output_of(A),)) == record
    assert {B.source} == {source for source, _ in desk.store.list_marks()}


def test_the_order_of_outputs_does_not_depend_on_arrival(desk: Desk) -> None:
    tokens = sorted(derive_child([root_of(A)], "split", slot) for slot in range(3))
    writes = [
        Event(A.source, (token,), (), (output_of(A)._replace(token=token),)) for token in tokens
    ]
    desk.writer.admit([A])
    desk.writer.apply(1, [*writes[::-1], Event(A.source, (root_of(A),), tuple(tokens))])
    desk.writer.commit()
    ((_, _, record),) = desk.store.list_records()
    assert tokens == [output.token for output in record.outputs]


def test_a_new_source_has_no_leftovers_to_remove(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A, output_of(A))])
    desk.writer.commit()
    assert [("mark", A.source), ("finish", A.source)] == desk.log


@pytest.mark.parametrize("end", ["lost", "failed", "finished"])
def test_leftovers_are_removed_when_a_source_is_finished_again(desk: Desk, end: str) -> None:
    """After any earlier end, removal happens under the lease and keeps the new try's files."""
    desk.writer.admit([A])
    if end == "failed":
        desk.writer.apply(1, [], [failed(A)])
    elif end == "finished":
        desk.writer.apply(1, [written(A)])
    desk.writer.commit()
    newer = listed("a", version="2")
    writer = desk.next_attempt(2)
    assert [RELEASED] == writer.admit([newer])
    assert desk.store.find_marks([A.source])[A.source].is_stale
    writer.apply(1, [written(newer, output_of(newer))])
    writer.commit()
    kept = [root_of(newer).hex() + ".txt"]
    expected = [("mark", A.source), ("finish", A.source), ("remove_others", A.source, kept)]
    assert expected == desk.log


def test_a_group_is_committed_before_its_leftovers_are_removed(desk: Desk) -> None:
    desk.writer.admit([A, B])
    writer = desk.next_attempt(2)
    writer.admit([A, B, C])
    writer.apply(1, [written(B), written(C), written(A)])
    writer.commit()
    steps = [step[0] for step in desk.log]
    assert ["mark", "finish", "remove_others", "remove_others"] == steps
    assert {A.source, B.source} == {step[1] for step in desk.log[2:]}


def test_leftovers_that_cannot_be_removed_end_the_attempt_and_wait(desk: Desk) -> None:
    desk.writer.admit([A])
    writer = desk.next_attempt(2)
    writer.admit([A, B])
    writer.apply(1, [written(A), written(B)])
    desk.outputs.is_broken = True
    with pytest.raises(VolumeError):
        writer.commit()
    assert (2, counts(finished=2)) == (writer.finished, desk.store.count())
    desk.outputs.is_broken = False
    writer.commit()
    assert ("remove_others", A.source, []) == desk.log[-1]


def test_a_group_is_one_transaction(desk: Desk) -> None:
    desk.writer.admit([A, B, C])
    desk.writer.apply(1, [written(A), written(B)], [failed(C)])
    before = desk.store._env.info()["last_txnid"]
    desk.writer.commit()
    assert counts(finished=2, failed=1) == desk.store.count()
    assert before + 1 == desk.store._env.info()["last_txnid"]


def test_sources_stay_waiting_when_a_commit_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A)])
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
    monkeypatch.setattr("strandline.storage.faults._reached", {"commit.written": 0})
    with pytest.raises(VolumeError):
        desk.writer.commit()
    assert [] == list(desk.store.list_records())
    desk.writer.commit()
    assert {A.source} == {source for source, *_ in desk.store.list_records()}


def test_a_group_waits_for_its_time(desk: Desk) -> None:
    desk.writer.admit([A, B, C])
    desk.writer.apply(1, [written(A)])
    desk.clock.time += GROUP_SECONDS / 2
    desk.writer.apply(2, [written(B)])
    desk.writer.commit_due()
    assert 0 == desk.writer.finished
    desk.clock.time += GROUP_SECONDS / 2  # measured from the group's first source
    desk.writer.commit_due()
    assert 2 == desk.writer.finished
    assert ("finish", A.source, B.source) == desk.log[-1]
    desk.writer.apply(3, [written(C)])  # the first source of the next group
    assert 2 == desk.writer.finished
    desk.clock.time += GROUP_SECONDS
    desk.writer.commit_due()
    assert 3 == desk.writer.finished


def test_a_late_message_commits_the_group_by_itself(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.writer.apply(1, [written(A)])
    desk.clock.time += GROUP_SECONDS
    desk.writer.apply(2, [], [failed(B)])
    assert counts(finished=1, failed=1) == desk.store.count()


def test_a_full_group_does_not_wait(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.ledger.writer.writer.GROUP_SOURCES", 3)
    desk.writer.admit([A, B, C])
    desk.writer.apply(1, [written(A), written(B)])
    assert 0 == desk.writer.finished
    desk.writer.apply(2, [], [failed(C)])
    assert counts(finished=2, failed=1) == desk.store.count()


def test_nothing_waiting_writes_nothing(desk: Desk) -> None:
    desk.writer.admit([])
    desk.clock.time += GROUP_SECONDS * 10
    desk.writer.commit_due()
    desk.writer.commit()
    assert [] == desk.log


@pytest.mark.parametrize("is_committed", [True, False])
def test_late_events_of_a_finished_source_are_ignored(desk: Desk, is_committed: bool) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A, output_of(A))])
    if is_committed:
        desk.writer.commit()
    desk.writer.apply(2, [written(A), Event(A.source, (), (root_of(A),))], [failed(A)])
    standing = desk.writer.drain(2, anything_died=False)
    assert Standing(finished=1, skipped=0, failed=0, unfinished=0, removed=0) == standing
    assert counts(finished=1) == desk.store.count()


def test_late_events_in_the_finishing_message_are_ignored(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A, output_of(A)), written(A)], [failed(A)])
    standing = desk.writer.drain(1, anything_died=False)
    assert Standing(finished=1, skipped=0, failed=0, unfinished=0, removed=0) == standing
    assert counts(finished=1) == desk.store.count()


@pytest.mark.parametrize("number", [0, 1, 3])
def test_messages_are_counted_in_order(desk: Desk, number: int) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [])
    with pytest.raises(ValueError, match=f"message {number} came after message 1"):
        desk.writer.apply(number, [written(A)])
    standing = desk.writer.drain(1, anything_died=False)
    assert (0, 1) == (standing.finished, standing.unfinished)


def test_a_drain_waits_for_the_last_message(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A)])
    with pytest.raises(ValueError, match="the last message is 2, but 1 have arrived"):
        desk.writer.drain(2, anything_died=True)
    assert 1 == desk.writer.drain(1, anything_died=True).finished


def test_a_drain_commits_and_returns_the_counts(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [written(A)])
    desk.writer.commit()
    writer = desk.next_attempt(2)
    writer.admit([A, B])
    writer.admit([C, listed("d"), listed("e")])
    writer.apply(1, [written(B), written(listed("d"))], [failed(C)])
    standing = writer.drain(1, anything_died=False)
    assert Standing(finished=2, skipped=1, failed=1, unfinished=1, removed=0) == standing
    assert counts(finished=3, failed=1, inflight=1) == desk.store.count()


def test_a_settled_but_unannounced_token_is_an_error_without_a_death(desk: Desk) -> None:
    desk.writer.admit([A, B])
    orphan = derive_child([root_of(A)], "split", 0)
    desk.writer.apply(1, [Event(A.source, (orphan,), ()), written(B)])
    with pytest.raises(NegativePendingCountError, match="source 'a'"):
        desk.writer.drain(1, anything_died=False)
    standing = desk.writer.drain(1, anything_died=True)
    assert (1, 1) == (standing.finished, standing.unfinished)


def test_an_unreleased_source_is_not_counted(desk: Desk) -> None:
    desk.writer.apply(1, [Event(A.source, (), (root_of(A),)), written(A)], [failed(B)])
    standing = desk.writer.drain(1, anything_died=False)
    assert Standing(0, 0, 0, 0, 0) == standing
    assert counts() == desk.store.count()


def test_two_answers_to_one_task_are_passed_on(desk: Desk) -> None:
    desk.writer.admit([A])
    children = tuple(derive_child([root_of(A)], "split", slot) for slot in range(2))
    desk.writer.apply(1, [Event(A.source, (root_of(A),), children)])
    with pytest.raises(NonDeterministicTaskError):
        desk.writer.apply(2, [Event(A.source, (root_of(A),), children[:1])])


def test_children_may_change_between_attempts(desk: Desk) -> None:
    children = tuple(derive_child([root_of(A)], "split", slot) for slot in range(2))
    desk.writer.admit([A])
    desk.writer.apply(1, [Event(A.source, (root_of(A),), children)])
    writer = desk.next_attempt(2)
    writer.admit([A])
    writer.apply(1, [written(A)])
    assert 1 == writer.drain(1, anything_died=False).finished
