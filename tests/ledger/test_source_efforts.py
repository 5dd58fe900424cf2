"""A source's cost is recorded when it finishes, and includes only the work that led there."""

from __future__ import annotations

from ledger_builders import Desk, failed, listed, output_of, root_of, written
from strandline.plan.receipt import Effort, Event

A, B = listed("a"), listed("b")


def effort_of(number: int) -> Effort:
    return Effort("read", number, 2 * number, float(number), 3 * number)


def with_effort(event: Event, number: int) -> Event:
    return event._replace(efforts=(effort_of(number),))


def test_work_of_a_source_is_recorded_when_it_finishes(desk: Desk) -> None:
    desk.writer.admit([A, B])
    desk.writer.apply(1, [with_effort(written(A, output_of(A)), 5)])
    desk.writer.apply(2, [with_effort(written(A, output_of(A)), 5)])
    desk.writer.apply(3, [written(B, output_of(B))])
    desk.writer.commit()
    kept = {record.key: record.efforts for _, _, record in desk.store.list_records()}
    assert kept == {"a": (effort_of(5),), "b": ()}
    desk.writer.apply(4, [with_effort(written(A, output_of(A)), 5)])
    assert desk.writer._tally.efforts == {}


def test_work_that_is_taken_back_does_not_count(desk: Desk) -> None:
    desk.writer.admit([A])
    root, child = root_of(A), b"c" * 16
    desk.writer.apply(1, [with_effort(Event(A.source, (root,), (child,)), 100)])
    desk.writer.apply(2, [Event(A.source, (root,), (root,))])
    desk.writer.apply(3, [with_effort(written(A, output_of(A)), 7)])
    desk.writer.commit()
    ((_, _, record),) = desk.store.list_records()
    assert record.efforts == (effort_of(7),)


def test_work_of_a_failed_source_is_not_kept(desk: Desk) -> None:
    desk.writer.admit([A])
    child = b"c" * 16
    desk.writer.apply(1, [with_effort(Event(A.source, (root_of(A),), (child,)), 4)], [failed(A)])
    desk.writer.commit()
    assert desk.writer._tally.efforts == {}
