"""What is heard of a window of sources, and when the ledger is told of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.call.slots import Slot
from strandline.engine.ray_data.window import Window
from strandline.ledger.tally import Tally
from strandline.plan.receipt import Event, Failure, Receipt, StageCounts

SOURCES = [bytes([number]) * 16 for number in range(3)]


def make_token(source: bytes, name: str) -> bytes:
    return source[:8] + name.encode().ljust(8)


def make_window() -> Window:
    return Window(
        [
            Slot(source, source.hex(), make_token(source, "root"), None, None, 0)
            for source in SOURCES
        ]
    )


def list_events(source: bytes, width: int) -> list[Event]:
    """A source that is fanned out into so many tasks, each of which is written."""
    children = tuple(make_token(source, f"child-{index}") for index in range(width))
    fan_out = Event(source, (make_token(source, "root"),), children)
    return [fan_out, *(Event(source, (child,), ()) for child in children)]


def take(window: Window, *events: Event) -> list[Event]:
    return window.take(Receipt(events, (), (), StageCounts())).events


def fail(source: bytes) -> Receipt:
    failure = Failure(source, source.hex(), make_token(source, "root"), "stage", "no good")
    return Receipt((), (failure,), (), StageCounts())


widths = st.lists(st.integers(0, 4), min_size=len(SOURCES), max_size=len(SOURCES))


@given(widths=widths, data=st.data())
def test_a_source_is_told_once_and_whole_in_whatever_order_it_was_heard(
    widths: list[int], data: st.DataObject
) -> None:
    events = [
        event
        for source, width in zip(SOURCES, widths, strict=True)
        for event in list_events(source, width)
    ]
    again = data.draw(st.lists(st.sampled_from(events)))
    window, ledger = make_window(), Tally(lambda _: False)
    ledger.count(Event(source, (), (make_token(source, "root"),)) for source in SOURCES)
    told: list[Event] = []

    for event in data.draw(st.permutations([*events, *again])):
        news = take(window, event)
        assert {event.source for event in news} <= {event.source}
        assert not {event.source for event in news} & {event.source for event in told}
        told += news

    assert set(told) == set(events)
    assert {source for source, _ in ledger.count(told)} == set(SOURCES)
    assert not window.open


@given(widths=widths, missing=st.integers(0, 20))
def test_nothing_is_told_of_a_source_that_has_to_be_tried_again(
    widths: list[int], missing: int
) -> None:
    window = make_window()
    told = []
    for source, width in zip(SOURCES, widths, strict=True):
        events = list_events(source, width)
        del events[missing % len(events)]
        told += take(window, *events)

    assert told == []
    assert set(window.open) == set(SOURCES)
    assert not window.has_finished


def test_a_failed_source_is_over_and_takes_what_was_heard_of_it_along() -> None:
    window = make_window()
    first, second, _ = SOURCES
    fan_out, *written = list_events(first, 2)
    take(window, fan_out)

    told = window.take(fail(first))
    late = take(window, *written)

    assert ([failure.source for failure in told.failures], told.events, late) == ([first], [], [])
    assert window.take(fail(first)).failures == []
    assert first not in window.open
    assert take(window, *list_events(second, 0)) == list_events(second, 0)
    assert window.has_finished
