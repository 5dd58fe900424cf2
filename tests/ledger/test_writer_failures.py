"""The ledger has one failure record per source and attempt, and counts until the source finishes.

`test_quarantine` covers the consequences of too many failures.
"""

from __future__ import annotations

import pytest

from ledger_builders import Desk, counts, failed, listed, output_of, written
from strandline.ledger.records.entries import Standing

A = listed("a")


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_failed_source_stays_failed(desk: Desk, is_committed: bool) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [], [failed(A), failed(A, "and again")])
    if is_committed:
        desk.writer.commit()
    desk.writer.apply(2, [written(A, output_of(A))], [failed(A, "and again")])
    standing = desk.writer.drain(2, anything_died=False)
    assert Standing(finished=0, skipped=0, failed=1, unfinished=0, removed=0) == standing
    ((source, failure),) = desk.store.list_failures()
    assert (A.source, "a", 1, "decode", "no such codec", 1, A.version) == (source, *failure)
    assert counts(failed=1) == desk.store.count()


def test_failures_are_counted_over_attempts_until_the_source_finishes(desk: Desk) -> None:
    writer = desk.writer
    for attempt in (1, 2):
        writer.admit([A])
        writer.apply(1, [], [failed(A)])
        writer.commit()
        ((_, failure),) = desk.store.list_failures()
        assert (attempt, attempt) == (failure.times, failure.attempt)
        writer = desk.next_attempt(attempt + 1)
    writer.admit([A])
    assert [2] == [mark.failed_before for _, mark in desk.store.list_marks()]
    writer.apply(1, [written(A)])
    writer.commit()
    assert counts(finished=1) == desk.store.count()


def test_a_dying_attempt_keeps_the_failure_count_of_a_source(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.writer.apply(1, [], [failed(A)])
    desk.writer.commit()
    desk.next_attempt(2).admit([A])
    writer = desk.next_attempt(3)
    writer.admit([A])
    writer.apply(1, [], [failed(A)])
    writer.commit()
    assert [2] == [failure.times for _, failure in desk.store.list_failures()]
