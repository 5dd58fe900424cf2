"""Efforts are counted together with their event: once, and in any order of events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.tally import Tally
from strandline.plan.receipt import Effort
from strategies import events_of, forests


def effort_of(number: int, stage: str = "read") -> Effort:
    return Effort(stage, number, 2 * number, float(number), 3 * number)


@given(data=st.data())
def test_law_efforts_add_up_in_any_order_and_duplicates_count_once(
    data: st.DataObject,
) -> None:
    events = [
        event._replace(efforts=(effort_of(place, "abc"[place % 3]),))
        for place, event in enumerate(events_of(data.draw(forests())))
    ]
    wanted: dict[bytes, int] = {}
    for event in events:
        if event.settled:  # the writer itself announces roots, once
            wanted[event.source] = wanted.get(event.source, 0) + event.efforts[0].rows_in
    doubled = data.draw(st.permutations(events + data.draw(st.lists(st.sampled_from(events)))))
    tally, over = Tally(lambda source: source in over), set[bytes]()
    for event in doubled:
        is_announcement = not event.settled
        told = event._replace(efforts=()) if is_announcement else event
        over.update(source for source, _ in tally.count([told]))
    assert over == {event.source for event in events}
    for source in over:
        kept = tally.efforts.get(source, {})
        assert sum(effort.rows_in for effort in kept.values()) == wanted[source]
        tally.forget(source)
    assert tally.efforts == {}
