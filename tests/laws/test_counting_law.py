"""The counting law is compared with a model that keeps all events and compares sets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.ledger.errors import NonDeterministicTaskError
from strandline.ledger.tally import Tally
from strandline.plan.receipt import Event, Left
from strategies import Model, Tree, arrivals, events_of, failure_of, forests, trees

Arrival = tuple[list[Tree], list[list[Event]]]
ARRIVALS = forests().flatmap(lambda forest: st.tuples(st.just(forest), arrivals(events_of(forest))))


class Counting:
    """A tally with a separate memory of finished sources, as in the ledger."""

    def __init__(self) -> None:
        self.outputs: dict[bytes, list[Left]] = {}
        self.over: set[bytes] = set()
        self.tally = Tally(self.over.__contains__)

    def count(self, events: Sequence[Event]) -> set[bytes]:
        return self._note(self.tally.count(events))

    def announce(self, roots: Sequence[tuple[bytes, bytes]]) -> set[bytes]:
        return self._note(self.tally.announce(roots))

    def _note(self, finished: list[tuple[bytes, list[Left]]]) -> set[bytes]:
        for source, outputs in finished:
            assert source not in self.over
            self.over.add(source)
            self.outputs[source] = sorted(outputs, key=repr)
        return {source for source, _ in finished}

    @property
    def open(self) -> set[bytes]:
        return set(self.tally.list_open())


@given(ARRIVALS)
def test_a_source_finishes_exactly_at_its_last_event(arrival: Arrival) -> None:
    forest, messages = arrival
    counting, model = Counting(), Model(forest)
    for message in messages:
        assert model.see(message) == counting.count(message)
        assert model.open == counting.open
    assert {tree.source for tree in forest} == counting.over


@given(st.data(), ARRIVALS)
def test_law_a_restarted_source_must_do_all_its_work_again(
    data: st.DataObject, arrival: Arrival
) -> None:
    forest, messages = arrival
    chosen = data.draw(st.sampled_from(forest))
    root = next(event.children for event in chosen.events if not event.settled)
    moment = data.draw(st.integers(0, len(messages)))
    counting, other = Counting(), Counting()
    for message in messages[:moment]:
        counting.count(message)
    is_open = chosen.source in counting.open
    counting.count([Event(chosen.source, root, root)])
    assert (chosen.source in counting.tally.restarted) is is_open
    counting.count([event for event in chosen.events if event.settled])
    if is_open:
        assert counting.outputs[chosen.source] == chosen.outputs
    for message in messages[moment:]:
        counting.count([event for event in message if event.source != chosen.source])
    for message in messages:
        other.count(message)
    assert counting.over - {chosen.source} == other.over - {chosen.source}


@given(st.data(), trees())
def test_law_a_restarted_source_may_produce_other_tasks(data: st.DataObject, tree: Tree) -> None:
    root = next(event.children for event in tree.events if not event.settled)
    before = [Event(tree.source, (), root), Event(tree.source, root, (b"x" * 16, b"y" * 16))]
    counting = Counting()
    counting.count(data.draw(st.sampled_from([before, before[:1]])))
    counting.count([Event(tree.source, root, root)])
    counting.count([event for event in tree.events if event.settled])
    assert counting.over == {tree.source}
    assert counting.outputs == {tree.source: tree.outputs}


@given(ARRIVALS)
def test_a_finished_source_names_each_output_once(arrival: Arrival) -> None:
    forest, messages = arrival
    counting = Counting()
    for message in messages:
        counting.count(message)
    assert {tree.source: tree.outputs for tree in forest} == counting.outputs


@given(st.data(), forests())
def test_a_source_that_misses_one_event_stays_open(data: st.DataObject, forest: list[Tree]) -> None:
    events = events_of(forest)
    dropped = data.draw(st.sampled_from(events))
    counting = Counting()
    for message in data.draw(arrivals([event for event in events if event != dropped])):
        counting.count(message)
    assert {tree.source for tree in forest} - {dropped.source} == counting.over
    assert {dropped.source} == counting.open


@given(st.data(), ARRIVALS)
def test_a_failed_source_never_finishes(data: st.DataObject, arrival: Arrival) -> None:
    forest, messages = arrival
    failing = data.draw(st.sampled_from(forest))
    moment = data.draw(st.integers(0, len(messages)))
    counting, model = Counting(), Model(forest)
    for message in messages[:moment]:
        assert model.see(message) == counting.count(message)
    is_news = failing.source not in model.finished
    assert is_news == bool(counting.tally.fail([failure_of(failing)]))
    assert [] == counting.tally.fail([failure_of(failing)])
    if is_news:
        model.failed.add(failing.source)
    for message in messages[moment:]:
        assert model.see(message) == counting.count(message)
        assert model.open == counting.open


@given(st.data(), ARRIVALS)
def test_another_answer_for_a_settled_token_is_an_error(
    data: st.DataObject, arrival: Arrival
) -> None:
    forest, messages = arrival
    counting, model = Counting(), Model(forest)
    for message in messages[: data.draw(st.integers(0, len(messages)))]:
        model.see(message)
        counting.count(message)
    settled = [event for event in model.seen if event.settled and event.source in model.open]
    if not settled:
        return
    event = data.draw(st.sampled_from(sorted(settled)))
    stranger = b"a stranger's one"
    others = st.sampled_from(
        [(*event.children, stranger), event.children[1:], event.children[::-1]]
    )
    other = event._replace(children=data.draw(others.filter(lambda new: new != event.children)))
    with pytest.raises(NonDeterministicTaskError, match="processed twice"):
        counting.count([other])


@given(st.data(), ARRIVALS)
def test_late_duplicates_of_a_finished_source_open_nothing(
    data: st.DataObject, arrival: Arrival
) -> None:
    forest, messages = arrival
    counting = Counting()
    for message in messages:
        counting.count(message)
    for message in data.draw(arrivals(events_of(forest))):
        assert set() == counting.count(message)
        assert set() == counting.open


@given(ARRIVALS)
def test_a_duplicate_in_the_message_that_finishes_opens_nothing(arrival: Arrival) -> None:
    forest, messages = arrival
    counting = Counting()
    events = [event for message in messages for event in message]
    assert {tree.source for tree in forest} == counting.count(events + events_of(forest))
    assert set() == counting.open


@given(st.data(), ARRIVALS)
def test_law_roots_announced_together_are_counted_like_single_events(
    data: st.DataObject, arrival: Arrival
) -> None:
    forest, messages = arrival
    moment = data.draw(st.integers(0, len(messages)))
    roots = [(tree.source, event.children[0]) for tree in forest for event in tree.events[:1]]
    counting, other = Counting(), Counting()
    for message in messages[:moment]:
        assert counting.count(message) == other.count(message)
    told = other.count([Event(source, (), (root,)) for source, root in roots])
    assert counting.announce(roots) == told
    for message in messages[moment:]:
        assert counting.count(message) == other.count(message)
        assert counting.open == other.open
    assert counting.outputs == other.outputs


@given(ARRIVALS)
def test_find_unannounced_finds_settled_tokens_without_announcement(arrival: Arrival) -> None:
    forest, messages = arrival
    counting, model = Counting(), Model(forest)
    for message in messages:
        model.see(message)
        counting.count(message)
        found = counting.tally.find_unannounced()
        assert found in model.unannounced if model.unannounced else found is None


@given(trees())
def test_every_token_is_announced_once_and_settled_once(tree: Tree) -> None:
    announced = [token for event in tree.events for token in event.children]
    settled = [token for event in tree.events for token in event.settled]
    assert sorted(announced) == sorted(settled)
    assert len(set(announced)) == len(announced)


def test_a_forgotten_failure_leaves_nothing() -> None:
    tree = Tree(b"s" * 16, (Event(b"s" * 16, (), (b"r" * 16,)),))
    counting = Counting()
    counting.tally.fail([failure_of(tree)])
    counting.tally.forget(tree.source)
    counting.over.add(tree.source)
    assert set() == counting.count(tree.events)
    assert set() == counting.open
