"""A writer skips, releases, or rejects listed sources, and removes vanished sources."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_builders import Desk, counts, failed, listed, output_of, written
from strandline.ledger.errors import DuplicateKeyError
from strandline.ledger.records.entries import HAS_FAILED, RELEASED, SKIPPED
from strandline.ledger.store.vanished import SeenSources
from strandline.ledger.writer.writer import LedgerWriter

A, B, C, D = (listed(key, ordinal=place) for place, key in enumerate("abcd"))


def first_attempt(desk: Desk) -> None:
    """Run an attempt in which `a` finishes, `b` fails, and `c` and `d` are lost."""
    desk.writer.admit([A, B, C, D])
    desk.writer.apply(1, [written(A, output_of(A))], [failed(B)])
    desk.writer.commit()


def test_finished_sources_are_skipped_and_the_others_released(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2)
    new = listed("e")
    released = [RELEASED + HAS_FAILED, *[RELEASED] * 3]
    assert [SKIPPED, *released] == writer.admit([A, B, C, D, new])
    marks = dict(desk.store.list_marks())
    assert {B.source, C.source, D.source, new.source} == marks.keys()
    assert {new.source} == {source for source, mark in marks.items() if not mark.is_stale}
    assert 1 == writer.drain(0, anything_died=False).skipped


def test_a_finished_batch_writes_nothing(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2)
    assert [SKIPPED] == writer.admit([A])
    assert [] == desk.log


def test_sources_found_finished_elsewhere_are_skipped_too(desk: Desk) -> None:
    assert [RELEASED] == desk.writer.admit([A], 5)
    assert [] == desk.writer.admit([], 2)
    desk.writer.end_listing(8)
    assert 1 == desk.store.read_meta("progress")["remaining"]
    assert 7 == desk.writer.drain(0, anything_died=False).skipped


def test_a_changed_version_is_released_and_no_longer_finished(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2)
    assert [RELEASED] == writer.admit([listed("a", version="2")])
    assert [] == list(desk.store.list_records())


@pytest.mark.parametrize("version", ["1", "2"])
def test_one_key_twice_in_a_batch_is_refused(desk: Desk, version: str) -> None:
    with pytest.raises(DuplicateKeyError, match="'b' is listed twice: as item 7 and as item 1"):
        desk.writer.admit([A, B, listed("b", version, ordinal=7)])
    assert {} == desk.store.find_marks([A.source, B.source])


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("open", "as item 0"),
        ("waiting", "as item 0"),
        ("finished", "once before, when it was finished"),
        ("failed", "once before, when it failed"),
    ],
)
@pytest.mark.parametrize("version", ["1", "2"])
def test_one_key_in_two_batches_is_refused(desk: Desk, end: str, told: str, version: str) -> None:
    desk.writer.admit([A])
    if end == "failed":
        desk.writer.apply(1, [], [failed(A)])
    elif end != "open":
        desk.writer.apply(1, [written(A)])
    if end in {"finished", "failed"}:
        desk.writer.commit()
    with pytest.raises(DuplicateKeyError, match=f"'a' is listed twice: as item 9 and {told};"):
        desk.writer.admit([listed("a", version, ordinal=9)])


def test_the_end_of_a_listing_is_noted(desk: Desk) -> None:
    desk.writer.admit([A, B])
    assert desk.store.read_meta("listed") is None
    desk.writer.end_listing(2)
    assert 2 == desk.store.read_meta("listed")
    assert {A.source, B.source} == {source for source, _ in desk.store.list_marks()}


def test_vanished_unfinished_sources_are_removed_with_their_outputs(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2)
    writer.admit([D])
    writer.end_listing(1)
    assert counts(finished=1, inflight=1) == desk.store.count()
    assert 2 == writer.drain(0, anything_died=False).removed
    removed = [step for step in desk.log if step[0] == "remove_others"]
    assert {(B.source, ()), (C.source, ())} == {
        (source, tuple(keep)) for _, source, keep in removed
    }


def test_a_failed_source_that_was_lost_later_is_removed_once(desk: Desk) -> None:
    first_attempt(desk)
    desk.next_attempt(2).admit([B])
    writer = desk.next_attempt(3)
    writer.admit([C, D])
    writer.end_listing(2)
    assert 1 == writer.drain(0, anything_died=False).removed
    assert 1 == len([step for step in desk.log if step[0] == "remove_others"])


def test_a_vanished_finished_source_is_kept(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2)
    writer.end_listing(0)
    assert {A.source} == {source for source, *_ in desk.store.list_records()}
    assert 3 == writer.drain(0, anything_died=False).removed


def test_a_vanished_finished_source_is_deleted_on_request(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2, deletes_vanished=True)
    writer.admit([B, C, D])
    writer.end_listing(3)
    assert [] == list(desk.store.list_records())
    steps: list[Any] = [("mark", A.source), ("remove_others", A.source, []), ("forget", A.source)]
    assert steps == desk.log[-3:]  # so that records never refer to removed files
    assert 1 == writer.drain(0, anything_died=False).removed


def test_listed_sources_stay_when_vanished_ones_are_deleted(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2, deletes_vanished=True)
    writer.admit([A, B, C])
    writer.admit([D])
    writer.apply(1, [written(C)], [failed(D)])
    writer.commit()
    writer.end_listing(4)
    assert counts(finished=2, failed=1, inflight=1) == desk.store.count()
    assert 0 == writer.drain(1, anything_died=False).removed


def test_many_vanished_sources_are_removed_in_groups(desk: Desk) -> None:
    many = [listed(f"source {number}") for number in range(2500)]
    desk.writer.admit(many)
    writer = desk.next_attempt(2)
    writer.end_listing(0)
    forgotten = [len(step) - 1 for step in desk.log if step[0] == "forget"]
    assert [1000, 1000, 500] == forgotten
    assert 2500 == writer.drain(0, anything_died=False).removed


def test_an_interrupted_removal_is_finished_next_time(desk: Desk) -> None:
    first_attempt(desk)
    writer = desk.next_attempt(2, deletes_vanished=True)
    desk.outputs.is_broken = True
    with pytest.raises(Exception, match="read-only"):
        writer.end_listing(0)
    assert [] == list(desk.store.list_records())
    desk.outputs.is_broken = False
    writer = desk.next_attempt(3)
    writer.end_listing(0)
    assert counts() == desk.store.count()
    assert 4 == writer.drain(0, anything_died=False).removed


def test_a_writer_that_deletes_nothing_remembers_no_listing(desk: Desk) -> None:
    writer = LedgerWriter(desk.store, desk.outputs, 1, desk.clock)
    assert writer._seen is None


def test_seen_and_missing_sources_are_distinguished() -> None:
    seen = SeenSources()
    seen.add([A.source, B.source])
    seen.add([B.source, C.source])
    assert [D.source] == seen.find_missing([A.source, D.source, C.source])
    assert [] == seen.find_missing([])


def test_law_a_versions_failures_are_known_until_it_changes(desk: Desk) -> None:
    desk.writer.admit([A])
    desk.fail_in(A, 2)
    for attempt in (3, 4):  # attempt 3 ends before it reaches the source
        assert [RELEASED + HAS_FAILED] == desk.next_attempt(attempt).admit([A])
    assert [RELEASED] == desk.next_attempt(5).admit([listed("a", version="2")])
